//! Builtin topics, and the entities that this participant ignores.
//!
//! Owns: the choice of reported entities and of the sinks. Never does: report this participant's
//! own entities (I-184).

use std::collections::BTreeSet;
use std::sync::Arc;

use derecho_core::ids::NodeId;

use super::ParticipantMachine;
use crate::infrastructure::InstanceHandle;
use crate::mapping::builtin::{
    BuiltinKind, DiscoverySink, EntityFact, EntityUpdate, RegisteredSink,
};
use crate::mapping::discovery::DiscoveryChange;
use crate::mapping::ignored::IgnoredEntities;
use crate::mapping::policies::EndpointPolicies;
use crate::mapping::shares::ReaderShared;

impl ParticipantMachine {
    /// Adds a sink, which receives facts about all entities of its kind, first about the existing
    /// ones. Returns its id.
    pub(crate) fn add_sink(
        &mut self,
        sink: Arc<dyn DiscoverySink>,
        shared: Arc<ReaderShared>,
        policies: EndpointPolicies,
    ) -> u64 {
        let id = self.fresh_endpoint();
        let mut listener = RegisteredSink::new(sink, shared, Arc::new(policies));
        if let Some(kind) = listener.kind() {
            let present = self.entities(kind).into_iter();
            listener.report(present.map(|handle| self.update_of(kind, handle)).collect::<Vec<_>>());
        }
        self.sinks.insert(id, listener);
        id
    }

    /// Entities of other participants of this kind that are not ignored.
    pub(crate) fn entities(&self, kind: BuiltinKind) -> Vec<InstanceHandle> {
        let state = self.group.state();
        let all: Vec<InstanceHandle> = match kind {
            BuiltinKind::Participant => {
                let all = state.directory().participants();
                all.map(|(node, _)| InstanceHandle { node, entity: 0 }).collect()
            }
            BuiltinKind::Topic => {
                let all = state.directory().topics();
                all.map(|(node, entity, _)| InstanceHandle { node, entity }).collect()
            }
            BuiltinKind::Publication | BuiltinKind::Subscription => {
                let all = state.nodes().flat_map(|node| state.of(node).map(move |it| (node, it)));
                let of_it = all.filter(|(_, (_, it))| BuiltinKind::of(it) == Some(kind));
                of_it.map(|(node, (entity, _))| InstanceHandle { node, entity }).collect()
            }
        };
        all.into_iter().filter(|handle| self.fact(kind, *handle).is_some()).collect()
    }

    /// Current fact about an entity of another participant; `None` if no such entity of this kind
    /// exists or it is ignored.
    pub(crate) fn fact(&self, kind: BuiltinKind, handle: InstanceHandle) -> Option<EntityFact> {
        let InstanceHandle { node, entity } = handle;
        let (state, ignored) = (self.group.state(), &self.ignored);
        if node == self.group.node().id() || ignored.has_participant(node) {
            return None;
        }
        match kind {
            BuiltinKind::Participant => {
                let data = state.directory().participant(node).filter(|_| entity == 0)?;
                Some(EntityFact::Participant(data.clone()))
            }
            BuiltinKind::Topic => {
                let data = state.directory().topic(node, entity)?;
                (!ignored.has_topic(&data.name)).then(|| EntityFact::Topic(data.clone()))
            }
            BuiltinKind::Publication | BuiltinKind::Subscription => {
                let endpoint = state.endpoint(node, entity)?;
                if BuiltinKind::of(endpoint) != Some(kind)
                    || self.is_hidden(handle, &endpoint.topic)
                {
                    return None;
                }
                let topic = state.directory().topic_of(node, endpoint);
                let topic_data = topic.map(|topic| topic.qos.topic_data.clone());
                Some(EntityFact::Endpoint(endpoint.clone(), topic_data.unwrap_or_default()))
            }
        }
    }

    fn update_of(&self, kind: BuiltinKind, handle: InstanceHandle) -> EntityUpdate {
        (handle, self.fact(kind, handle))
    }

    /// Reports changed entities to the sinks for their kind.
    fn report_entities(&mut self, kind: BuiltinKind, handles: &[InstanceHandle]) {
        if !self.sinks.values().any(|listener| listener.kind() == Some(kind)) {
            return;
        }
        let present: Vec<EntityUpdate> =
            handles.iter().map(|handle| self.update_of(kind, *handle)).collect();
        for listener in self.sinks.values_mut().filter(|listener| listener.kind() == Some(kind)) {
            listener.report(present.iter().cloned());
        }
    }

    /// Reports a discovery change to the sinks.
    pub(super) fn report_change(&mut self, change: &DiscoveryChange) {
        if self.sinks.is_empty() {
            return;
        }
        match change {
            DiscoveryChange::Announced(node, id) | DiscoveryChange::Retracted(node, id, _) => {
                let handle = InstanceHandle { node: *node, entity: *id };
                self.report_entities(BuiltinKind::Publication, &[handle]);
                self.report_entities(BuiltinKind::Subscription, &[handle]);
            }
            DiscoveryChange::Participant(node) => {
                let handle = InstanceHandle { node: *node, entity: 0 };
                self.report_entities(BuiltinKind::Participant, &[handle]);
            }
            DiscoveryChange::Topic(node, id) => {
                self.report_entities(
                    BuiltinKind::Topic,
                    &[InstanceHandle { node: *node, entity: *id }],
                );
                self.report_endpoints_of(*node, *id);
            }
            DiscoveryChange::Admitted(_) => {}
            DiscoveryChange::Renewed => self.report_all(),
        }
    }

    /// Reports the endpoints of a topic again, because their facts contain TOPIC_DATA.
    fn report_endpoints_of(&mut self, node: NodeId, topic: u64) {
        let state = self.group.state();
        let Some(topic) = state.directory().topic(node, topic) else { return };
        let of_it = state.of_topic(&topic.name).filter(|(of, _)| *of == node);
        let handles: Vec<_> = of_it.map(|(_, entity)| InstanceHandle { node, entity }).collect();
        self.report_entities(BuiltinKind::Publication, &handles);
        self.report_entities(BuiltinKind::Subscription, &handles);
    }

    /// Reports every change to every sink.
    pub(super) fn report_all(&mut self) {
        let ids: Vec<u64> = self.sinks.keys().copied().collect();
        for id in ids {
            let Some(listener) = self.sinks.get(&id) else { continue };
            let Some(kind) = listener.kind() else { continue };
            let mut handles: BTreeSet<InstanceHandle> = listener.known().collect();
            handles.extend(self.entities(kind));
            let present: Vec<EntityUpdate> =
                handles.into_iter().map(|handle| self.update_of(kind, handle)).collect();
            self.sinks.get_mut(&id).into_iter().for_each(|it| it.report(present.clone()));
        }
    }
}

/// Ignored entities.
impl ParticipantMachine {
    /// Whether an endpoint of this topic belongs to another participant and is ignored.
    pub(super) fn is_hidden(&self, handle: InstanceHandle, topic: &str) -> bool {
        let InstanceHandle { node, entity } = handle;
        node != self.group.node().id() && self.ignored.hides(node, entity, topic)
    }

    /// Ignores an entity of this kind for ever. Returns `false` if no such entity of another
    /// participant exists.
    pub(crate) fn ignore(&mut self, kind: BuiltinKind, handle: InstanceHandle) -> bool {
        let Some(fact) = self.fact(kind, handle) else { return false };
        let InstanceHandle { node, entity } = handle;
        let ignored = Arc::make_mut(&mut self.ignored);
        match fact {
            EntityFact::Participant(_) => ignored.add_participant(node),
            EntityFact::Topic(data) => ignored.add_topic(data.name),
            EntityFact::Endpoint(..) => ignored.add_endpoint(node, entity),
        }
        self.ignore_from_now_on(Arc::clone(&self.ignored));
        // Comes first: a reader accepts no later samples of a writer that it has begun to ignore.
        self.atomic.update_all_known(&self.group);
        let nodes: Vec<NodeId> = self.group.state().nodes().collect();
        nodes.into_iter().for_each(|node| self.match_all_of(node));
        self.report_all();
        true
    }

    /// Sets the ignored entities.
    pub(super) fn ignore_from_now_on(&mut self, ignored: Arc<IgnoredEntities>) {
        self.atomic.ignore(Arc::clone(&ignored));
        self.ignored = ignored;
    }
}
