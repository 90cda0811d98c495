//! What a publisher holds back: coherent sets, and the news of what its writers write while it is suspended.
//!
//! ```text
//!   begin ── write, dispose, ... ──> gathered, for each writer ── the outermost end ──> one record of each writer
//! ```
//! If the publisher's writers are one, for its PRESENTATION has the access scope of a group, one record holds what all of them
//! have written.
//!
//! So nothing of a set has left its process before it ends, and what leaves then does so as one (I-190).
//!
//! Owns: what was written in the set that is open. Never does: write; the writers do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::PresentationQosPolicy;

use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::set::Gathered;
use crate::subscription::{check_order, is_one};

/// A coherent set is open, and its samples are held back.
const IN_SET: u32 = 1;
/// Nobody is woken for what is written.
const SUSPENDED: u32 = 2;

/// Whose samples were gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Authors {
    /// The writer's that writes them.
    One,
    /// Those of several: each sample says whose it is.
    Several,
}

/// What a sample of a set has changed of its writer beside being written, which is taken back if the set is discarded.
pub(super) enum Effect {
    /// It is the first of an instance that counts among those of max_instances since.
    Entered(u128),
    /// It says that its writer has no more to say of an instance: which was registered with this key, if it was, and counted,
    /// if it did.
    Left { key: u128, registered: Option<Box<[u8]>>, counted: bool },
}

/// A writer, as its publisher needs it.
pub(super) trait HeldBack: Send + Sync {
    /// Writes what was gathered as one record; waits for room as long as this says, or as the writer's policies do.
    fn publish(
        self: Arc<Self>,
        gathered: &Gathered,
        authors: Authors,
        blocking: Option<Timeout>,
    ) -> DdsResult<()>;
    /// Whether there is room for that now.
    fn has_room_for_set(&self, gathered: &Gathered) -> bool;
    /// Wakes those who wait for what it has written.
    fn wake(&self);
    /// A sample with this effect was discarded.
    fn take_back(self: Arc<Self>, effect: Effect);
}

/// A writer that has written in the set that is open.
struct Author {
    id: u64,
    writer: Weak<dyn HeldBack>,
    /// What its samples have changed, in their order.
    effects: Vec<Effect>,
}

/// What was written of an open set by one writer, or by all of them.
struct Part {
    writers: Vec<Author>,
    gathered: Gathered,
}

impl Part {
    /// Who writes it: of several one that is there.
    fn writer(&self) -> Option<Arc<dyn HeldBack>> {
        self.writers.iter().find_map(|author| author.writer.upgrade())
    }

    fn authors(&self) -> Authors {
        if self.writers.len() > 1 { Authors::Several } else { Authors::One }
    }
}

/// A writer's topic, and the stream by which its samples go, if they have an order.
struct Course {
    writer: usize,
    key: u64,
    topic: Arc<str>,
}

#[derive(Default)]
struct State {
    /// How many sets are open, one within the other.
    depth: u32,
    parts: Vec<Part>,
    /// Where its writers write.
    courses: Vec<Course>,
    /// How often it was suspended and not resumed.
    suspended: u32,
    /// Writers for whose samples nobody was woken.
    quiet: Vec<(u64, Weak<dyn HeldBack>)>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Changes {
    /// PRESENTATION.coherent_access. Without it a set is not kept together.
    is_coherent: AtomicBool,
    /// A set is one, whoever has written it.
    is_group: AtomicBool,
    mode: AtomicU32,
    state: Mutex<State>,
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it keeps sets together.
    pub(super) fn is_coherent(&self) -> bool {
        self.is_coherent.load(Ordering::Relaxed)
    }

    /// PRESENTATION is this when the first of its writers begins; before that it may change.
    pub(super) fn agree(&self, presentation: &PresentationQosPolicy) {
        self.is_coherent.store(presentation.coherent_access, Ordering::Relaxed);
        self.is_group.store(is_one(presentation), Ordering::Relaxed);
    }

    /// A writer begins, whose samples go by the stream of this key, if they have an order.
    ///
    /// # Errors
    /// If it cannot be one with those that are there.
    pub(super) fn join(&self, writer: usize, key: Option<u64>, topic: &str) -> DdsResult<()> {
        let mut state = self.lock();
        if self.is_group.load(Ordering::Relaxed) {
            let others = state.courses.iter().map(|course| (course.key, &*course.topic));
            check_order("publisher", (key, topic), others)?;
        }
        state.courses.push(Course { writer, key: key.unwrap_or(0), topic: topic.into() });
        Ok(())
    }

    /// A writer is no more.
    pub(super) fn leave(&self, writer: usize) {
        self.lock().courses.retain(|course| course.writer != writer);
    }

    /// Whether what is written now may have to be held back.
    #[inline(always)]
    pub(super) fn is_in_set(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & IN_SET != 0
    }

    /// Whether nobody may have to be woken now.
    #[inline(always)]
    pub(super) fn is_suspended(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & SUSPENDED != 0
    }

    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.depth += 1;
        if self.is_coherent() {
            self.mode.fetch_or(IN_SET, Ordering::Relaxed);
        }
    }

    /// Ends the innermost set. The outermost one is written; if that fails it is still open, and what is not written
    /// yet is still in it.
    pub(super) fn end(&self, blocking: Option<Timeout>) -> DdsResult<()> {
        // Let go of without the lock: a writer of which nobody else is left by then says so here.
        let mut busy = Vec::new();
        let mut state = self.lock();
        state.check_open()?;
        if state.depth == 1 {
            while let Some(part) = state.parts.first() {
                // Who is gone takes its samples with it, unless others go on with them.
                if part.gathered.samples() > 0
                    && let Some(writer) = part.writer()
                {
                    busy.push(Arc::clone(&writer));
                    writer.publish(&part.gathered, part.authors(), blocking)?;
                }
                state.parts.remove(0);
            }
            self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        }
        state.depth -= 1;
        Ok(())
    }

    /// Forgets all that was written in the set that is open, and closes it, whatever it is within.
    pub(super) fn discard(&self) -> DdsResult<usize> {
        let mut state = self.lock();
        state.check_open()?;
        let parts = std::mem::take(&mut state.parts);
        state.depth = 0;
        self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        drop(state);
        let samples = parts.iter().map(|part| part.gathered.samples()).sum();
        for author in parts.into_iter().flat_map(|part| part.writers) {
            let Some(writer) = author.writer.upgrade() else { continue };
            let effects = author.effects.into_iter().rev();
            effects.for_each(|effect| Arc::clone(&writer).take_back(effect));
        }
        Ok(samples)
    }

    /// Whether there is room for what is to be written next.
    pub(super) fn has_room(&self) -> bool {
        // Let go of without the lock.
        let writer;
        let Ok(state) = self.state.try_lock() else { return false };
        let Some(part) = state.parts.first() else { return true };
        writer = part.writer();
        writer.as_ref().is_none_or(|writer| writer.has_room_for_set(&part.gathered))
    }

    /// What a writer has written in the set that is open; `None` if there is none any more.
    pub(super) fn gather<R>(
        &self,
        id: u64,
        writer: impl FnOnce() -> Weak<dyn HeldBack>,
        add: impl FnOnce(&mut Gathered, &mut Vec<Effect>) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        if state.depth == 0 {
            return None;
        }
        let is_group = self.is_group.load(Ordering::Relaxed);
        let is_its = |part: &Part| is_group || part.writers.iter().any(|author| author.id == id);
        let known = state.parts.iter().position(is_its);
        let at = known.unwrap_or_else(|| {
            state.parts.push(Part { writers: Vec::new(), gathered: Gathered::default() });
            state.parts.len() - 1
        });
        let part = &mut state.parts[at];
        let known = part.writers.iter().position(|author| author.id == id);
        let author = known.unwrap_or_else(|| {
            part.writers.push(Author { id, writer: writer(), effects: Vec::new() });
            part.writers.len() - 1
        });
        Some(add(&mut part.gathered, &mut part.writers[author].effects))
    }

    pub(super) fn suspend(&self) {
        self.lock().suspended += 1;
        self.mode.fetch_or(SUSPENDED, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) -> DdsResult<()> {
        let mut state = self.lock();
        let Some(left) = state.suspended.checked_sub(1) else {
            return Err(DdsError::PreconditionNotMet(
                "this publisher is not suspended: suspend_publications comes before resume_publications"
                    .to_owned(),
            ));
        };
        state.suspended = left;
        if left > 0 {
            return Ok(());
        }
        self.mode.fetch_and(!SUSPENDED, Ordering::Relaxed);
        let quiet = std::mem::take(&mut state.quiet);
        drop(state);
        quiet.iter().filter_map(|(_, writer)| writer.upgrade()).for_each(|writer| writer.wake());
        Ok(())
    }

    /// Somebody is to be woken for what this writer has written when the publisher is resumed; `false` if that is now.
    pub(super) fn wakes_later(&self, id: u64, writer: impl FnOnce() -> Weak<dyn HeldBack>) -> bool {
        let mut state = self.lock();
        let is_suspended = state.suspended > 0;
        if is_suspended && state.quiet.iter().all(|(known, _)| *known != id) {
            state.quiet.push((id, writer()));
        }
        is_suspended
    }
}

impl State {
    fn check_open(&self) -> DdsResult<()> {
        if self.depth > 0 {
            return Ok(());
        }
        Err(DdsError::PreconditionNotMet(
            "this publisher has no coherent set open: begin_coherent_changes comes first"
                .to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use qos_profiles::PresentationQosPolicyAccessScopeKind;

    use super::*;

    /// What writers were asked for.
    #[derive(PartialEq, Eq, Debug)]
    enum Asked {
        /// To write so many samples.
        Write(u64, usize, Authors),
        /// Whether there is room for so many.
        Room(u64, usize),
        Wake(u64),
        TakeBack(u64, u128),
    }

    /// A publisher's writers, which write down what they are asked for.
    #[derive(Clone, Default)]
    struct Writers {
        changes: Arc<Changes>,
        asked: Arc<Mutex<Vec<Asked>>>,
    }

    struct Writer {
        id: u64,
        all: Writers,
        has_room: AtomicBool,
        /// Its application's handle, which that lets go of once the writer is asked for something.
        last: Mutex<Option<Arc<Writer>>>,
    }

    impl Writers {
        fn with(scope: PresentationQosPolicyAccessScopeKind, coherent_access: bool) -> Writers {
            let (access_scope, ordered_access) = (scope, false);
            let writers = Writers::default();
            writers.changes.agree(&PresentationQosPolicy {
                access_scope,
                coherent_access,
                ordered_access,
            });
            writers
        }

        fn coherent() -> Writers {
            Writers::with(PresentationQosPolicyAccessScopeKind::Topic, true)
        }

        fn writer(&self, id: u64) -> Arc<Writer> {
            let (all, has_room, last) = (self.clone(), AtomicBool::new(true), Mutex::default());
            Arc::new(Writer { id, all, has_room, last })
        }

        fn asked(&self) -> Vec<Asked> {
            std::mem::take(&mut *self.asked.lock().unwrap())
        }
    }

    impl Writer {
        fn ask(&self, asked: Asked) -> bool {
            self.all.asked.lock().unwrap().push(asked);
            let last = self.last.lock().unwrap().take();
            drop(last);
            self.has_room.load(Ordering::Relaxed)
        }

        fn held_back(self: &Arc<Writer>) -> Weak<dyn HeldBack> {
            let it: Weak<Writer> = Arc::downgrade(self);
            it
        }

        /// Whether there is a set that a sample with this effect goes into.
        fn write(self: &Arc<Writer>, effect: Option<u128>) -> bool {
            let added = self.all.changes.gather(
                self.id,
                || self.held_back(),
                |gathered, effects| {
                    effects.extend(effect.map(Effect::Entered));
                    gathered.add(0, 4, |_| Ok::<_, ()>(()))
                },
            );
            added.is_some()
        }

        /// Nobody is left of it but whom this asks.
        fn let_go_of_once_asked(self: Arc<Writer>) {
            let last = Arc::clone(&self);
            *self.last.lock().unwrap() = Some(last);
        }
    }

    impl HeldBack for Writer {
        fn publish(
            self: Arc<Self>,
            gathered: &Gathered,
            authors: Authors,
            blocking: Option<Timeout>,
        ) -> DdsResult<()> {
            match self.ask(Asked::Write(self.id, gathered.samples(), authors)) {
                true => Ok(()),
                false => Err(DdsError::Timeout(format!("{blocking:?}"))),
            }
        }

        fn has_room_for_set(&self, gathered: &Gathered) -> bool {
            self.ask(Asked::Room(self.id, gathered.samples()))
        }

        fn wake(&self) {
            self.ask(Asked::Wake(self.id));
        }

        fn take_back(self: Arc<Self>, effect: Effect) {
            if let Effect::Entered(key) = effect {
                self.ask(Asked::TakeBack(self.id, key));
            }
        }
    }

    impl Drop for Writer {
        /// As a writer does of which no handle is left.
        fn drop(&mut self) {
            self.all.changes.leave(self.id as usize);
        }
    }

    fn is_not_met(result: DdsResult<()>) -> bool {
        matches!(result, Err(DdsError::PreconditionNotMet(_)))
    }

    #[test]
    fn what_each_writer_has_written_leaves_as_one_when_the_outermost_set_ends() {
        let writers = Writers::coherent();
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        assert!(changes.is_coherent() && !changes.is_in_set() && !first.write(None));
        assert!(is_not_met(changes.end(None)) && changes.discard().is_err());
        changes.begin();
        assert!(changes.is_in_set() && !changes.is_suspended() && first.write(None));
        changes.begin();
        assert!([&second, &first, &first].iter().all(|writer| writer.write(None)));
        changes.end(None).unwrap();
        assert!(changes.is_in_set() && second.write(None) && writers.asked().is_empty());
        changes.end(None).unwrap();
        let expected = [Asked::Write(1, 3, Authors::One), Asked::Write(2, 2, Authors::One)];
        assert_eq!(writers.asked(), expected);
        assert!(!changes.is_in_set() && !first.write(None) && is_not_met(changes.end(None)));
        changes.begin();
        changes.end(None).unwrap();
        assert_eq!(writers.asked(), [], "it has left already");
    }

    #[test]
    fn of_a_group_all_leaves_as_one_and_says_whether_several_wrote_it() {
        let writers = Writers::with(PresentationQosPolicyAccessScopeKind::Group, true);
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        changes.begin();
        assert!([&first, &second, &first].iter().all(|writer| writer.write(None)));
        changes.end(None).unwrap();
        assert_eq!(writers.asked(), [Asked::Write(1, 3, Authors::Several)]);
        changes.begin();
        assert!(second.write(None) && second.write(None));
        changes.end(None).unwrap();
        assert_eq!(writers.asked(), [Asked::Write(2, 2, Authors::One)]);
        changes.begin();
        assert!(first.write(None) && second.write(None));
        drop(first);
        changes.end(None).unwrap();
        let expected = [Asked::Write(2, 2, Authors::Several)];
        assert_eq!(writers.asked(), expected, "who is left goes on with them");
    }

    #[test]
    fn a_publisher_without_coherent_access_holds_nothing_back() {
        let writers = Writers::with(PresentationQosPolicyAccessScopeKind::Topic, false);
        writers.changes.begin();
        assert!(!writers.changes.is_coherent() && !writers.changes.is_in_set());
        writers.changes.end(None).unwrap();
    }

    #[test]
    fn what_could_not_be_written_is_still_in_the_set() {
        let writers = Writers::coherent();
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        changes.begin();
        assert!(first.write(None) && second.write(None));
        second.has_room.store(false, Ordering::Relaxed);
        let Err(DdsError::Timeout(said)) = changes.end(Some(Timeout::NOW)) else { panic!() };
        assert_eq!(said, format!("{:?}", Some(Timeout::NOW)));
        assert!(changes.is_in_set() && second.write(None));
        second.has_room.store(true, Ordering::Relaxed);
        writers.asked();
        changes.end(None).unwrap();
        assert_eq!(writers.asked(), [Asked::Write(2, 2, Authors::One)]);
    }

    #[test]
    fn who_is_gone_or_could_add_nothing_writes_nothing() {
        let writers = Writers::coherent();
        let (changes, gone, there) = (&writers.changes, writers.writer(1), writers.writer(2));
        changes.begin();
        assert!(gone.write(None));
        drop(gone);
        let refuse = |gathered: &mut Gathered, _: &mut Vec<Effect>| {
            gathered.add(0, 4, |_| Err("it cannot be encoded"))
        };
        let added = changes.gather(2, || there.held_back(), refuse);
        assert!(added.is_some_and(|added| added.is_err()));
        changes.end(None).unwrap();
        assert_eq!(writers.asked(), []);
    }

    #[test]
    fn what_is_discarded_is_taken_back_from_the_last_to_the_first() {
        let writers = Writers::coherent();
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        changes.suspend();
        changes.begin();
        changes.begin();
        assert!(
            [(&first, 10), (&second, 20), (&first, 11), (&second, 21)]
                .iter()
                .all(|it| it.0.write(Some(it.1)))
        );
        assert!(first.write(None));
        assert_eq!(changes.discard().unwrap(), 5);
        let expected = [(1, 11), (1, 10), (2, 21), (2, 20)];
        assert_eq!(writers.asked(), expected.map(|(writer, key)| Asked::TakeBack(writer, key)));
        assert!(!changes.is_in_set() && changes.is_suspended() && is_not_met(changes.end(None)));
        changes.begin();
        assert_eq!(changes.discard().unwrap(), 0);
    }

    #[test]
    fn there_is_room_for_a_set_if_its_next_writer_says_so() {
        let writers = Writers::coherent();
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        changes.begin();
        assert!(changes.has_room(), "there is nothing to write");
        assert!(first.write(None) && first.write(None) && second.write(None));
        second.has_room.store(false, Ordering::Relaxed);
        assert!(changes.has_room());
        first.has_room.store(false, Ordering::Relaxed);
        assert!(!changes.has_room());
        assert_eq!(writers.asked(), [Asked::Room(1, 2), Asked::Room(1, 2)]);
        drop(first);
        assert!(changes.has_room(), "who is gone needs none");
        let state = changes.lock();
        assert!(!changes.has_room(), "somebody ends it just now");
        drop(state);
    }

    #[test]
    fn who_wrote_while_its_publisher_was_suspended_wakes_once_when_it_is_resumed() {
        let writers = Writers::coherent();
        let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
        let wakes_later =
            |writer: &Arc<Writer>| changes.wakes_later(writer.id, || writer.held_back());
        assert!(!changes.is_suspended() && !wakes_later(&first) && is_not_met(changes.resume()));
        changes.suspend();
        changes.suspend();
        changes.begin();
        assert!(changes.is_suspended() && changes.is_in_set());
        assert!([&first, &second, &first].into_iter().all(wakes_later));
        changes.end(None).unwrap();
        changes.resume().unwrap();
        assert!(changes.is_suspended() && wakes_later(&first) && writers.asked().is_empty());
        changes.begin();
        changes.resume().unwrap();
        assert_eq!(writers.asked(), [Asked::Wake(1), Asked::Wake(2)], "and not before it was");
        assert!(changes.is_in_set() && !changes.is_suspended() && !wakes_later(&second));
        changes.suspend();
        changes.resume().unwrap();
        assert_eq!(writers.asked(), []);
        assert!(is_not_met(changes.resume()));
    }

    #[test]
    fn those_of_a_group_share_one_order_while_they_are_there() {
        let group = Writers::with(PresentationQosPolicyAccessScopeKind::Group, true).changes;
        assert!(group.join(1, None, "a").is_err(), "it has none");
        group.join(1, Some(7), "a").unwrap();
        group.join(2, Some(7), "b").unwrap();
        let other = || group.join(3, Some(8), "c");
        assert!(matches!(other(), Err(DdsError::InconsistentPolicy(_))));
        group.leave(1);
        let Err(why) = other() else { panic!("another one is left") };
        assert!(why.to_string().contains("`b`"), "{why}");
        group.leave(2);
        other().unwrap();
        let alone = Writers::coherent().changes;
        assert!([Some(7), Some(8), None].iter().all(|key| alone.join(1, *key, "a").is_ok()));
    }

    /// The last that is left of a writer says that it is gone, which takes the lock.
    #[test]
    fn a_writer_that_goes_while_its_set_ends_stops_nobody() {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let asking: [fn(&Changes) -> bool; 2] = [|it| it.end(None).is_ok(), Changes::has_room];
            for asks in asking {
                let writers = Writers::coherent();
                let writer = writers.writer(1);
                writers.changes.begin();
                assert!(writer.write(None));
                writer.let_go_of_once_asked();
                done.send(asks(&writers.changes)).unwrap();
                assert_eq!(writers.asked().len(), 1);
            }
        });
        for what in ["it is written", "there is room"] {
            assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true), "{what}");
        }
    }
}
