//! Posts that never leave their node: planted errors of a live member that answers and makes
//! no progress.
//!
//! Owns: the withheld posts of a turn. Never does: choose a victim; a test does.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::Sharing;
use derecho_core::machine::{Effects, PostKind, Target};

/// Regions and peers of the withheld posts.
#[derive(Default)]
pub(crate) struct WithheldPosts(Vec<(RegionId, Option<Peer>)>);

impl WithheldPosts {
    /// Withholds all later posts of this region to one peer; `None`: to all.
    pub(crate) fn add(&mut self, region: RegionId, to: Option<Peer>) {
        self.0.push((region, to));
    }

    /// Removes the withheld posts.
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
