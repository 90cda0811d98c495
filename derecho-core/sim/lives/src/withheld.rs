//! Posts that never leave their node: the errors of a member that lives, answers, and makes no progress.
//!
//! Owns: what is left out of a turn's posts. Never does: choose a victim; a test does.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::Sharing;
use derecho_core::machine::{Effects, PostKind, Target};

/// The posts that are withheld.
#[derive(Default)]
pub(crate) struct Withheld(Vec<(RegionId, Option<Peer>)>);

impl Withheld {
    /// From now on no word of this region is posted to that peer; `None`: to nobody.
    pub(crate) fn add(&mut self, region: RegionId, to: Option<Peer>) {
        self.0.push((region, to));
    }

    /// Leaves them out.
    pub(crate) fn leave_out(&self, effects: &mut Effects) {
        if self.0.is_empty() {
            return;
        }
        let posts: Vec<_> = effects.take_posts().collect();
        for post in posts {
            let (peer, sharing) = (post.peer, Sharing::Copied);
            match post.kind {
                PostKind::Write(region, range) => {
                    let is_withheld = |&(known, to): &(RegionId, Option<Peer>)| {
                        known == region && to.is_none_or(|to| to == peer)
                    };
                    if !self.0.iter().any(is_withheld) {
                        effects.write(Target { peer, sharing }, region, range);
                    }
                }
                PostKind::Read(region, range) => effects.read(peer, region, range),
                PostKind::Note(bytes) => effects.note(peer, bytes),
            }
        }
    }
}
