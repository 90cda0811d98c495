//! Optimisations that can be switched off one by one, so that the worth of each can be measured.
//!
//! An ablation limits a predicate to one item a turn, or moves its post; none adds a second
//! implementation. All of them together are the papers' baseline.

/// Optimisations that are switched off. None, by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ablation {
    /// A turn sends one message.
    pub send_batching: bool,
    /// A turn receives one entry of each sender.
    pub receive_batching: bool,
    /// A turn delivers one message.
    pub delivery_batching: bool,
    /// No member sends nulls: the order waits for every sender.
    pub nulls: bool,
    /// Each predicate posts its changes, instead of one post at the end of the turn.
    pub post_at_end: bool,
    /// A turn evaluates the predicates of every subgroup, whether the subgroup has news or not.
    pub activity: bool,
    /// Samples are copied into the sender's memory and out of it, instead of built and read there.
    pub in_place: bool,
}

impl Ablation {
    /// Names by which ablations are selected.
    pub const NAMES: [&str; 7] = [
        "send-batching",
        "receive-batching",
        "delivery-batching",
        "nulls",
        "post-at-end",
        "in-place",
        "activity",
    ];

    /// Switches everything off.
    pub fn all() -> Ablation {
        let mut all = Ablation::default();
        Ablation::NAMES.iter().for_each(|name| *all.named(name).expect("a name of ours") = true);
        all
    }

    /// Returns the switch with this name.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "send-batching" => &mut self.send_batching,
            "receive-batching" => &mut self.receive_batching,
            "delivery-batching" => &mut self.delivery_batching,
            "nulls" => &mut self.nulls,
            "post-at-end" => &mut self.post_at_end,
            "in-place" => &mut self.in_place,
            "activity" => &mut self.activity,
            _ => return None,
        })
    }

    /// Maximum number of entries that a turn sends.
    pub(super) fn most_sent(self) -> u64 {
        limit(self.send_batching)
    }

    /// Maximum number of entries that a turn receives from each sender.
    pub(super) fn most_received(self) -> u64 {
        limit(self.receive_batching)
    }

    /// Maximum number of messages that a turn delivers.
    pub(super) fn most_delivered(self) -> u64 {
        limit(self.delivery_batching)
    }
}

fn limit(off: bool) -> u64 {
    if off { 1 } else { u64::MAX }
}
