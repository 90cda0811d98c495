//! End of a turn or an act: the cost of its effects, and the moment of each.
//!
//! Owns: prices of effects, moments of posts, and the choice of the peers to ring. Never does:
//! execute a post.

use derecho_core::link::{Link, Sharing};
use derecho_core::machine::{Effects, Post, PostKind};

use super::Config;
use crate::cost::{CostModel, whole};
use crate::link::SimLink;
use crate::network::RungPeers;

/// Closes the regions that a machine no longer uses: no peer is counted in them any more, so no
/// post of this turn concerns them.
pub(super) fn close_regions(link: &mut SimLink, effects: &mut Effects) {
    for region in effects.take_closes() {
        if let Err(error) = link.close(region) {
            panic!("a machine closed a region that is not open: {error}");
        }
    }
}

/// Returns the peers to ring after a turn or an act: none where memory is copied.
pub(super) fn rung_by(config: &Config, effects: &Effects) -> RungPeers {
    match config.sharing {
        Sharing::Shared => {
            RungPeers { news: effects.touched().to_vec(), hints: effects.hinted().to_vec() }
        }
        Sharing::Copied => RungPeers::default(),
    }
}

/// Cost of a turn or an act.
pub(super) struct TurnCost {
    /// Time of the end.
    pub(super) end: u64,
    /// Number of posts.
    pub(super) posts: usize,
    /// CPU time spent on posts and completions.
    pub(super) posting: u64,
}

/// Prices the effects of a turn or an act that began at `begin`, and gives each post its moment.
pub(super) fn settle(
    costs: &CostModel,
    pace: u64,
    begin: u64,
    fixed_ns: f64,
    effects: &mut Effects,
    mut post_at: impl FnMut(u64, Post),
) -> TurnCost {
    let work = costs.work_ns(effects.work_done());
    let mut posts = 0;
    let mut completions = 0.0;
    for post in effects.take_posts() {
        posts += 1;
        if !matches!(post.kind, PostKind::Note(_)) {
            completions += costs.completion_ns;
        }
        let spent = fixed_ns + costs.work_ns(post.work) + posts as f64 * costs.post_ns;
        post_at(begin + whole(spent) * pace, post);
    }
    effects.clear();
    let posting = posts as f64 * costs.post_ns + completions;
    let end = begin + whole(fixed_ns + work + posting) * pace;
    TurnCost { end, posts, posting: whole(posting) * pace }
}
