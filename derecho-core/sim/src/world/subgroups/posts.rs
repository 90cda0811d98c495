//! Posts of a turn, to be examined or to be posted differently.

use derecho_core::link::Sharing;
use derecho_core::machine::{Effects, PostKind, Target};

/// Takes the posts of a turn, in order.
pub fn take_posts(effects: &mut Effects) -> Vec<(Target, PostKind)> {
    let target = |peer| Target { peer, sharing: Sharing::Copied };
    effects.take_posts().map(|post| (target(post.peer), post.kind)).collect()
}

/// Posts what was taken. Nodes make no reads.
pub fn post(target: Target, kind: PostKind, effects: &mut Effects) {
    match kind {
        PostKind::Write(region, range) => effects.write(target, region, range),
        PostKind::Note(bytes) => effects.note(target.peer, bytes),
        PostKind::Read(..) => {}
    }
}
