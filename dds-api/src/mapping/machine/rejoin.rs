//! The machine of a participant's next life: what its entities had in the last one, anew.
//!
//! Owns: what passes from one life to the next: endpoints under their names, and nothing else. Never does: take
//! over memory or queues; the others have gone on, and use again what lay there. What is kept comes from the
//! others too, who have had more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::Group;
use derecho_core::link::{Arbiter, Link};
use derecho_core::machine::Effects;

use super::{LocalReader, LocalWriter, ParticipantMachine};
use crate::mapping::discovery::Discovery;
use crate::mapping::shares::Refusal;
use crate::mapping::topic_logs::TopicLogs;

impl ParticipantMachine {
    /// The logs of this life, which is over. Their folder is free for the next one when they are dropped.
    pub(crate) fn end_logs(&mut self) -> Option<TopicLogs> {
        self.group.end_logs();
        self.atomic.end_logs()
    }

    /// The machine of the next life, over another link. Until this has gone well nothing here has changed, and
    /// it can be tried again; then this one turns no more.
    pub(crate) fn begin_again(
        &mut self,
        (group, host): (Group<Discovery>, Option<Arc<dyn Arbiter>>),
        logs: Option<TopicLogs>,
        link: &mut impl Link,
        effects: &mut Effects,
    ) -> Result<ParticipantMachine, Refusal> {
        let (standing, life) = (Arc::clone(&self.standing), self.standing.next_life());
        let node = group.node().id();
        let mut next = ParticipantMachine::new(group, standing, host, life);
        next.next_endpoint = self.next_endpoint;
        next.topics.clone_from(&self.topics);
        next.has_to_log = Arc::clone(&self.has_to_log);
        next.past = Arc::clone(&self.past);
        logs.into_iter().for_each(|logs| next.keep_logs(logs));
        next.ignore_from_now_on(Arc::clone(&self.ignored));
        next.say_again(&self.said);
        let mut berths = Vec::new();
        for (&id, LocalWriter { endpoint, geometry, shared, .. }) in &self.writers {
            let share = (*geometry, Arc::clone(shared));
            let berth = next.place_writer(link, (id, endpoint.clone()), share, effects)?;
            berths.push((Arc::clone(shared), berth));
        }
        for (&id, LocalReader { endpoint, shared, wants_history, .. }) in &self.readers {
            shared.inconsistent.store(0, Ordering::Release);
            let share = (Arc::clone(shared), *wants_history);
            next.place_reader(link, (id, endpoint.clone()), share, effects)?;
        }
        // Whom its entities were matched with in the last life they are not matched with any more.
        self.writers.values().for_each(|writer| writer.partners.part(&writer.shared.board));
        self.readers.values().for_each(|reader| reader.partners.part(&reader.shared.board));
        for (shared, berth) in berths {
            shared.matched.store(0, Ordering::Release);
            shared.move_to(berth);
        }
        for LocalReader { endpoint, shared, .. } in self.readers.values() {
            shared.leave_behind(life);
            // What has come meanwhile is not known here yet.
            shared.knows_history.store(!endpoint.level.is_kept(), Ordering::Release);
            *shared.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
            shared.matched.store(0, Ordering::Release);
            shared.changes.fetch_add(1, Ordering::Release);
        }
        // Nothing can go wrong any more.
        let listeners = std::mem::take(&mut self.listeners).into_iter();
        next.listeners = listeners.map(|(id, it)| (id, it.doubt())).collect();
        next.has_doubts = true;
        // Publishes all of that.
        self.standing.begin(life, node);
        Ok(next)
    }
}
