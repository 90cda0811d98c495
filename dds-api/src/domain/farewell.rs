//! End of a membership: at once, or when no sample in hand refers to memory of other participants any more.

use std::sync::Arc;
use std::time::Duration;

use super::assembly::DomainEngine;
use crate::infrastructure::Timeout;
use crate::mapping::standing::Standing;

/// Longest time for which a participant that ends waits until the others have heard of that.
const GOODBYE: Duration = Duration::from_millis(500);
/// Time between two looks whether samples are still in hand.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Membership that ends.
pub(super) struct Farewell {
    pub(super) engine: DomainEngine,
    pub(super) standing: Arc<Standing>,
}

impl Farewell {
    /// Ends the membership. While the application still has samples in the memory of other participants, a thread keeps the
    /// membership, because writers leave that memory alone for members only.
    pub(super) fn say(self) {
        if !self.refers_to_others() {
            return self.leave();
        }
        let engine = self.engine.clone();
        let standing = Arc::clone(&self.standing);
        let waits = move || {
            while self.refers_to_others() {
                std::thread::sleep(LOOK_AGAIN);
            }
            self.leave();
        };
        let thread = std::thread::Builder::new().name("squall-farewell".into()).spawn(waits);
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread keeps the membership: samples in hand may change");
            Farewell { engine, standing }.leave();
        }
    }

    /// Whether samples that the application still has lie in memory of participants that go on.
    fn refers_to_others(&self) -> bool {
        !self.standing.has_ended() && self.engine.act(|machine, _, _| machine.refers_to_others())
    }

    fn leave(self) {
        // Who says goodbye is waited for by nobody. Others that do not answer are left all the same.
        self.engine.act(|machine, _, _| machine.leave());
        let deadline = Timeout::from(GOODBYE).deadline();
        self.engine.wait(deadline, || self.standing.has_ended());
        // When the participant is gone, so is its hold on its folder of logs; unless its disk does not answer in time.
        let ending = self.engine.act(|machine, _, _| machine.take_ending());
        if ending.is_some_and(|ending| ending.join().is_err()) {
            tracing::error!("the thread that ends logs panicked");
        }
        self.engine.stop();
    }
}
