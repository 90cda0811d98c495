//! A member that lacks the data of a subgroup: the request that it has made, and its announcements.
//!
//! Owns: the pending request, with what was received for it so far. Never does: send the request.

use super::holders::Holders;
use crate::ids::NodeId;

/// Choice of the holders that a member asks, and the numbers of its requests.
#[derive(Default)]
pub(crate) struct HolderRotation {
    requests: u64,
}

impl HolderRotation {
    /// Returns the holder that is asked next, and the number of the request; `None` if no member
    /// except this one and those in `except` holds the data. Requests vary, and go to different
    /// holders.
    pub(crate) fn next(
        &mut self,
        holders: &Holders,
        me: NodeId,
        except: &[NodeId],
    ) -> Option<(NodeId, u64)> {
        let is_askable = |node: &NodeId| *node != me && !except.contains(node);
        let others = || holders.names().iter().copied().filter(is_askable);
        let count = others().count();
        if count == 0 {
            return None;
        }
        self.requests += 1 + (me.0 as u64 & 0xff);
        Some((others().nth(self.requests as usize % count)?, self.requests))
    }
}

/// Request that is not fully answered yet.
struct PendingRequest<R> {
    holder: NodeId,
    request: u64,
    /// Epoch that the requester had reached by then.
    epoch: u64,
    /// Whether the holder began only after that epoch and cannot answer; the request can be
    /// repeated in a later epoch.
    is_refused: bool,
    received: R,
}

/// A member's requests for data, of which it keeps `R` until all is received; see the
/// [module](self).
pub(crate) struct TransferRequester<R> {
    pending: Option<PendingRequest<R>>,
    /// Beginning of which the member has announced that it has it.
    announced_beginning: Option<u128>,
    /// Vacancy in which the member has last announced that it has, or lacks, the data.
    announced_in: Option<u64>,
}

impl<R> Default for TransferRequester<R> {
    fn default() -> Self {
        TransferRequester { pending: None, announced_beginning: None, announced_in: None }
    }
}

impl<R: Default> TransferRequester<R> {
    /// Notes that this holder was asked, in this epoch.
    pub(crate) fn ask(&mut self, holder: NodeId, request: u64, epoch: u64) {
        let (is_refused, received) = (false, R::default());
        self.pending = Some(PendingRequest { holder, request, epoch, is_refused, received });
    }

    /// Whether an answer can still come, so that nothing is asked in this epoch.
    pub(crate) fn awaits_answer(&self, epoch: u64) -> bool {
        self.pending.as_ref().is_some_and(|asked| !asked.is_refused || asked.epoch == epoch)
    }

    /// Whether this request to this member is pending.
    pub(crate) fn has_asked(&self, node: NodeId, request: u64) -> bool {
        self.pending.as_ref().is_some_and(|asked| (asked.holder, asked.request) == (node, request))
    }

    /// Returns what was received so far for the pending request.
    pub(crate) fn received(&mut self) -> Option<&mut R> {
        self.pending.as_mut().map(|asked| &mut asked.received)
    }

    /// Drops the pending request, so that a holder is asked again.
    pub(crate) fn cancel(&mut self) {
        self.pending = None;
    }

    /// Drops the pending request if the member that was asked no longer holds the data.
    pub(crate) fn update(&mut self, holders: &Holders) {
        self.pending.take_if(|asked| !holders.names().contains(&asked.holder));
    }

    /// Notes that the holder began only after the epoch of the request.
    pub(crate) fn refuse(&mut self) {
        self.pending.iter_mut().for_each(|asked| asked.is_refused = true);
    }

    /// Whether it is to be announced that the member has the data; if so, it counts as announced.
    pub(crate) fn announces_holding(&mut self, holders: &Holders) -> bool {
        let (beginning, vacancy) = (Some(holders.beginning()), holders.vacancy());
        let is_asked = vacancy.is_some() && vacancy != self.announced_in;
        let is_due = is_asked || self.announced_beginning != beginning;
        if is_due {
            (self.announced_beginning, self.announced_in) = (beginning, vacancy);
        }
        is_due
    }

    /// Notes that all members know that this member has the data of this beginning.
    pub(crate) fn note_named(&mut self, beginning: u128) {
        (self.pending, self.announced_beginning) = (None, Some(beginning));
    }

    /// Whether it is to be announced that the member lacks the data, as asked in this vacancy; if
    /// so, it counts as announced.
    pub(crate) fn announces_lack(&mut self, vacancy: u64) -> bool {
        self.announced_in.replace(vacancy) != Some(vacancy)
    }
}

impl<R> core::fmt::Debug for TransferRequester<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let asked = self.pending.as_ref().map(|it| (it.holder, it.request, it.is_refused));
        write!(f, "asked {asked:?}, announced in {:?}", self.announced_in)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ME: NodeId = NodeId(1);
    const A: NodeId = NodeId(2);
    const B: NodeId = NodeId(3);

    fn holders(names: &[NodeId]) -> Holders {
        let mut holders = Holders::default();
        holders.settle(names, |_| names.first().copied());
        let beginning = holders.beginning();
        names.iter().for_each(|node| holders.holds(*node, beginning));
        holders
    }

    #[test]
    fn holders_are_asked_in_rotation_and_never_the_member_itself() {
        let mut rotation = HolderRotation::default();
        let (all, mut last) = (holders(&[A, ME, B]), 0);
        let mut asked = Vec::new();
        for _ in 0..8 {
            let (node, request) = rotation.next(&all, NodeId(1 << 8), &[]).expect("others hold it");
            assert!(request > last, "requests differ");
            (last, asked) = (request, [&asked[..], &[node]].concat());
        }
        assert!([A, ME, B].iter().all(|node| asked.contains(node)));
        assert!((0..8).all(|_| rotation.next(&all, ME, &[]).expect("others hold it").0 != ME));
        assert!((0..8).all(|_| rotation.next(&all, ME, &[A]).expect("B holds it").0 == B));
        assert_eq!(rotation.next(&all, ME, &[A, B]), None);
        assert_eq!(rotation.next(&holders(&[ME]), ME, &[]), None);
    }

    #[test]
    fn request_ends_with_its_holder_and_refusal_ends_with_the_epoch() {
        let mut requester = TransferRequester::<Vec<u8>>::default();
        requester.ask(A, 7, 3);
        assert_eq!(
            [(A, 7), (A, 8), (B, 7)].map(|(node, it)| requester.has_asked(node, it)),
            [true, false, false]
        );
        requester.refuse();
        assert_eq!([3, 4].map(|epoch| requester.awaits_answer(epoch)), [true, false]);
        requester.ask(A, 8, 4);
        requester.update(&holders(&[B, A]));
        assert!(requester.awaits_answer(5) && requester.received().is_some());
        requester.update(&holders(&[B]));
        assert!(!requester.awaits_answer(4) && requester.received().is_none());
    }

    #[test]
    fn announcements_are_made_once_for_each_beginning_and_vacancy() {
        let mut requester = TransferRequester::<()>::default();
        let mut holders = holders(&[A]);
        assert_eq!([1, 1, 2].map(|vacancy| requester.announces_lack(vacancy)), [true, false, true]);
        assert_eq!([(); 2].map(|()| requester.announces_holding(&holders)), [true, false]);
        holders.forget(A);
        holders.settle(&[ME], |_| None);
        assert_eq!(holders.vacancy(), Some(1));
        assert_eq!([(); 2].map(|()| requester.announces_holding(&holders)), [true, false]);
        requester.note_named(holders.beginning() + 1);
        assert!(requester.announces_holding(&holders), "another beginning");
    }
}
