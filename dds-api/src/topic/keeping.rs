//! What a topic promises of its samples: how its level, its policies and which samples are kept follow from each other.
//!
//! Owns: the rules. Never does: keep anything.

use qos_profiles::{
    DurabilityQosPolicyKind, DurabilityServiceQosPolicy, Duration, HistoryQosPolicyKind, Length,
    PolicyId, TopicQos,
};

use crate::infrastructure::{DdsError, DdsResult, LogRetention};
use crate::mapping::level::{Keeping, TopicLevel};
use crate::mapping::policies::{check_data, durability};

/// What no policy of the standard says.
#[derive(Clone, Default)]
pub(super) struct KeepingOptions {
    /// Samples are delivered once they are durable.
    pub(super) durable_first: bool,
    /// A log whose disk is full takes no part any more.
    pub(super) detach: bool,
    pub(super) log_retention: LogRetention,
    /// Samples are of instances, which may be over.
    pub(super) has_instances: bool,
}

/// What a topic promises.
pub(super) struct Promise {
    pub(super) qos: TopicQos,
    pub(super) level: TopicLevel,
    pub(super) keeping: Keeping,
}

impl KeepingOptions {
    /// DURABILITY_SERVICE of a topic that says nothing of it: the standard's defaults, but what is kept of an instance that is over
    /// stays.
    pub(super) fn usual_service() -> DurabilityServiceQosPolicy {
        DurabilityServiceQosPolicy {
            service_cleanup_delay: Duration::INFINITE,
            ..DurabilityServiceQosPolicy::default()
        }
    }

    /// DURABILITY_SERVICE of a topic that says by its HISTORY and RESOURCE_LIMITS what is kept: nobody serves it, so nobody forgets
    /// what is over.
    pub(super) fn service_of(qos: &TopicQos) -> DurabilityServiceQosPolicy {
        DurabilityServiceQosPolicy {
            history_kind: qos.history.kind,
            history_depth: qos.history.depth,
            max_samples: qos.resource_limits.max_samples,
            max_instances: qos.resource_limits.max_instances,
            max_samples_per_instance: qos.resource_limits.max_samples_per_instance,
            ..KeepingOptions::usual_service()
        }
    }

    /// What a topic of this name promises with these policies.
    ///
    /// # Errors
    /// If they contradict each other.
    pub(super) fn promise(
        &self,
        name: &str,
        level: TopicLevel,
        mut qos: TopicQos,
    ) -> DdsResult<Promise> {
        check_data(PolicyId::TopicData, &qos.topic_data.value)?;
        let keeping = self.keeping(level, &qos).map_err(|wrong| {
            DdsError::InconsistentPolicy(format!("DURABILITY_SERVICE of topic `{name}`: {wrong}"))
        })?;
        if qos.durability.kind != DurabilityQosPolicyKind::Transient || !level.is_kept() {
            qos.durability.kind = durability(level);
        }
        match qos.inconsistencies().first() {
            Some(wrong) => Err(DdsError::InconsistentPolicy(format!("topic `{name}`: {wrong}"))),
            None => Ok(Promise { qos, level, keeping }),
        }
    }

    /// Which samples are kept, as participants tell each other; or what is wrong with it.
    fn keeping(&self, level: TopicLevel, qos: &TopicQos) -> Result<Keeping, String> {
        if !level.is_kept() {
            return Ok(Keeping::default());
        }
        let service = &qos.durability_service;
        let alone = TopicQos { durability_service: service.clone(), ..TopicQos::default() };
        if let Some(wrong) = alone.inconsistencies().first() {
            return Err(wrong.to_string());
        }
        let per_instance = service.max_samples_per_instance.limit();
        let depth = match service.history_kind {
            HistoryQosPolicyKind::KeepLast => Some(service.history_depth),
            HistoryQosPolicyKind::KeepAll => per_instance,
        };
        let limit = |length: Length| length.limit().unwrap_or(0);
        let lifespan = qos.lifespan.duration.nanos();
        // Where nothing can be over records go in their order (I-230).
        let cleanup = service.service_cleanup_delay.nanos().filter(|_| self.has_instances);
        if depth == Some(0) || service.max_samples.limit() == Some(0) || lifespan == Some(0) {
            return Err(
                "nothing would be kept: make depth, max_samples and lifespan more than none".into(),
            );
        }
        let LogRetention { time, bytes, samples } = self.log_retention;
        let limited = time.is_some() || bytes.is_some() || samples.is_some();
        if limited && depth.is_none() && service.max_samples.limit().is_none() && lifespan.is_none()
        {
            return Err(
                "all samples are kept for readers that come late, so no log may drop any: leave \
                        `log_retention` out, or keep less (`keep_last`, `max_samples`, `lifespan`)"
                    .into(),
            );
        }
        let log_limit = |limit: Option<u64>| match limit.filter(|_| level.is_logged()) {
            // Zero stands for no limit; of one the same is kept.
            Some(limit) => limit.max(1),
            None => 0,
        };
        let log_time = time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Ok(Keeping {
            log_time: log_limit(log_time),
            log_bytes: log_limit(bytes),
            log_samples: log_limit(samples),
            depth: depth.unwrap_or(0),
            most: limit(service.max_samples),
            instances: limit(service.max_instances),
            lifespan: lifespan.unwrap_or(0),
            forgets: cleanup.is_some(),
            cleanup: cleanup.unwrap_or(0),
            durable_first: self.durable_first && level.is_logged(),
            detach: self.detach && level.is_logged(),
        })
    }
}
