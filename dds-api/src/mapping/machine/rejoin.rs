//! The machine of a participant's next life, with the entities of the last one.
//!
//! Owns: the transfer of endpoints from one life to the next, under their ids, and of discovery
//! sinks and ignored entities (I-185). Never does: take over memory or queues, because the other
//! members have continued and reuse that memory. Kept samples also come from other members, which
//! have received more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::Group;
use derecho_core::link::{Arbiter, Link};
use derecho_core::machine::Effects;

use super::{LocalReader, LocalWriter, ParticipantMachine};
use crate::mapping::discovery::Discovery;
use crate::mapping::shares::{EndpointRefusal, NewReader, NewWriter};
use crate::mapping::topic_logs::TopicLogs;

impl ParticipantMachine {
    /// The logs of this life, which is over. Dropping them frees their folder for the next life.
    pub(crate) fn end_logs(&mut self) -> Option<TopicLogs> {
        self.group.end_logs();
        self.atomic.end_logs()
    }

    /// Makes the machine of the next life, over another link. On failure nothing has changed here,
    /// and the call can be repeated. After success this machine takes no more turns.
    pub(crate) fn begin_again(
        &mut self,
        group: Group<Discovery>,
        host: Option<Arc<dyn Arbiter>>,
        logs: Option<TopicLogs>,
        link: &mut impl Link,
        effects: &mut Effects,
    ) -> Result<ParticipantMachine, EndpointRefusal> {
        let (membership, life) = (Arc::clone(&self.membership), self.membership.next_life());
        let node = group.node().id();
        let mut next = ParticipantMachine::new(group, membership, host, life);
        next.next_endpoint = self.next_endpoint;
        next.topics.clone_from(&self.topics);
        next.has_to_log = Arc::clone(&self.has_to_log);
        next.past = Arc::clone(&self.past);
        logs.into_iter().for_each(|logs| next.keep_logs(logs));
        next.ignore_from_now_on(Arc::clone(&self.ignored));
        next.announce_again(&self.own_announcements);
        let mut writer_memories = Vec::new();
        for (&id, LocalWriter { endpoint, geometry, shared, .. }) in &self.writers {
            let (endpoint, geometry) = (endpoint.clone(), *geometry);
            let new = NewWriter { id, endpoint, geometry, shared: Arc::clone(shared) };
            let writer_memory = next.create_writer(link, new, effects)?;
            writer_memories.push((Arc::clone(shared), writer_memory));
        }
        for (&id, LocalReader { endpoint, shared, wants_history, .. }) in &self.readers {
            shared.inconsistent.store(0, Ordering::Release);
            let (endpoint, shared) = (endpoint.clone(), Arc::clone(shared));
            let new = NewReader { id, endpoint, shared, wants_history: *wants_history };
            next.create_reader(link, new, effects)?;
        }
        // The entities are no longer matched with the partners of the last life.
        self.writers.values().for_each(|writer| writer.partners.unmatch_all(&writer.shared.board));
        self.readers.values().for_each(|reader| reader.partners.unmatch_all(&reader.shared.board));
        for (shared, writer_memory) in writer_memories {
            shared.set_writer_memory(writer_memory);
        }
        for LocalReader { endpoint, shared, .. } in self.readers.values() {
            shared.end_sources(life);
            // Samples kept in the meantime are not known here yet.
            shared.knows_history.store(!endpoint.level.is_kept(), Ordering::Release);
            *shared.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
            shared.changes.fetch_add(1, Ordering::Release);
        }
        // Nothing can fail from here on.
        let listeners = std::mem::take(&mut self.sinks).into_iter();
        next.sinks = listeners.map(|(id, it)| (id, it.mark_uncertain())).collect();
        next.has_uncertain_facts = true;
        // Publishes all of the above.
        self.membership.begin(life, node, link.halts());
        Ok(next)
    }
}
