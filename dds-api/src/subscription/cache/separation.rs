//! TIME_BASED_FILTER, and the effect of a policy change on waiting samples.
//!
//! Owns: the time at which the next sample of an instance may pass. Never does: let one pass.

use super::timers::{CacheTimer, TimerKind};
use super::{CacheSettings, SampleCache};

impl<S> SampleCache<S> {
    /// Applies these settings from now on. Stored samples remain unchanged. A sample that waits for
    /// TIME_BASED_FILTER waits as long as the new setting says.
    pub fn set_settings(&mut self, settings: CacheSettings) {
        let before = std::mem::replace(&mut self.settings, settings).minimum_separation;
        if before == settings.minimum_separation {
            return;
        }
        for at in self.instances.all().collect::<Vec<_>>() {
            if self.instances.get(at).waiting.is_some() {
                self.list_release(at);
            }
        }
    }

    /// Time at which the next sample of an instance may pass.
    #[inline]
    pub(super) fn free_at(&self, at: u32) -> u64 {
        match self.settings.minimum_separation {
            0 => 0,
            separation => {
                let passed = self.instances.get(at).passed;
                passed.map_or(0, |passed| passed.saturating_add(separation))
            }
        }
    }

    /// Schedules the release of the sample that waits in an instance.
    pub(super) fn list_release(&mut self, at: u32) {
        let (time, epoch) = (self.free_at(at), self.instances.epoch(at));
        self.note(CacheTimer { time, kind: TimerKind::Release, at, epoch });
    }
}
