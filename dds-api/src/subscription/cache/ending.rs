//! Ends of instances: by a writer that disposes or unregisters them, or is lost.
//!
//! Owns: the state in which an instance ends, and the notice of that (I-143). Never does: take in a
//! sample.

use super::arrival::ArrivalOutcome;
use super::instances::Key;
use super::samples::{CacheEntry, SourceOrder};
use super::settings::NEVER;
use super::timers::{CacheTimer, TimerKind};
use super::{InstanceState, SampleCache};
use crate::infrastructure::InstanceHandle;

impl<S> SampleCache<S> {
    /// Removes a writer from all its instances. `data` is called for the data that hold the key,
    /// with the key as it was given when the instance became known. Returns the number of instances
    /// that end.
    pub fn lose(
        &mut self,
        now: u64,
        writer: InstanceHandle,
        mut data: impl FnMut(&[u8]) -> Option<S>,
    ) -> usize {
        self.keep_passing();
        self.advance(now);
        let mut ended = 0;
        // Rare enough to look at all instances.
        for at in self.instances.all().collect::<Vec<_>>() {
            if self.instances.get(at).writers.has(writer) {
                let data = data(&self.instances.get(at).key_value);
                let outcome = self.let_go(now, at, SourceOrder::new(now, writer), data);
                ended += usize::from(outcome == ArrivalOutcome::Stored);
            }
        }
        ended
    }

    /// Disposes the instances of a writer at this time. Under exclusive ownership, these are the
    /// instances that the writer owns. `data` is called for the data that hold the key of an
    /// instance that ends. Returns the number of instances that end.
    pub fn dispose_all(
        &mut self,
        now: u64,
        time: u64,
        writer: InstanceHandle,
        mut data: impl FnMut(Key, &[u8]) -> Option<S>,
    ) -> usize {
        self.keep_passing();
        self.advance(now);
        let order = SourceOrder::new(time, writer);
        let mut ended = 0;
        for at in self.instances.all().collect::<Vec<_>>() {
            let instance = self.instances.get(at);
            let is_owner = match self.settings.exclusive {
                true => instance.writers.is_strongest(writer),
                false => instance.writers.has(writer),
            };
            let is_late = self.settings.by_source && order < instance.latest;
            if !is_owner || is_late || instance.state == InstanceState::NotAliveDisposed {
                continue;
            }
            let data = data(instance.key, &instance.key_value);
            let instance = self.instances.get_mut(at);
            instance.latest = instance.latest.max(order);
            instance.overtaken = instance.latest;
            self.end(now, at, InstanceState::NotAliveDisposed, order, data);
            ended += 1;
        }
        ended
    }

    /// Notes that a writer has missed its deadline for an instance. The writer owns the instance
    /// again from its next sample on, and remains one of its live writers.
    pub fn give_up(&mut self, key: Key, writer: InstanceHandle) {
        self.keep_passing();
        if let Some(at) = self.instances.find(key) {
            self.instances.get_mut(at).writers.give_up(writer);
        }
    }

    /// Removes the writer of a record from an instance.
    pub(super) fn let_go(
        &mut self,
        now: u64,
        at: u32,
        written: SourceOrder,
        data: Option<S>,
    ) -> ArrivalOutcome {
        let instance = self.instances.get_mut(at);
        if !instance.writers.unregister(written.writer()) || !instance.writers.is_empty() {
            return ArrivalOutcome::Unnoticed;
        }
        if instance.state != InstanceState::Alive {
            self.instances.tidy(at);
            return ArrivalOutcome::Unnoticed;
        }
        // Uses the times of what was written: the time at which a writer was lost is not comparable
        // to them.
        instance.overtaken = instance.latest;
        let time = written.time.max(instance.latest.time);
        let written = SourceOrder::new(time, written.writer());
        self.end(now, at, InstanceState::NotAliveNoWriters, written, data);
        ArrivalOutcome::Stored
    }

    /// Ends an instance: adds a notice behind all samples (I-143).
    pub(super) fn end(
        &mut self,
        now: u64,
        at: u32,
        state: InstanceState,
        written: SourceOrder,
        data: Option<S>,
    ) {
        self.drop_notice(at);
        let instance = self.instances.get_mut(at);
        instance.state = state;
        let delay = match state {
            InstanceState::NotAliveDisposed => self.settings.disposed_delay,
            _ => self.settings.no_writer_delay,
        };
        instance.purge_at = now.saturating_add(delay);
        let entry = CacheEntry {
            data,
            instance: at,
            position: self.position,
            writer: written.writer(),
            time: written.time,
            expires: NEVER,
            disposed_generation: instance.disposed_generation,
            no_writers_generation: instance.no_writers_generation,
            valid: false,
            read: false,
        };
        let notice = self.samples.add(entry);
        self.chain(notice);
        self.list_purge(at);
    }

    /// Schedules the removal of an instance's samples.
    pub(super) fn list_purge(&mut self, at: u32) {
        let instance = self.instances.get_mut(at);
        let time = instance.purge_at;
        if time < instance.purge_listed {
            instance.purge_listed = time;
            let epoch = self.instances.epoch(at);
            self.note(CacheTimer { time, kind: TimerKind::Purge, at, epoch });
        }
    }
}
