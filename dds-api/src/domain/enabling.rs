//! Enabling and end of a writer or reader.
//!
//! ```text
//!   draft ──enable──> started, announced, matched ──delete, or the last handle──> gone
//! ```
//! Owns: the draft of an endpoint until it is enabled, the order of the steps of enabling, and the
//! waits of an endpoint's calls.
//! Never does: announce the endpoint; the endpoint does that itself.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use derecho_core::ids::Time;
use derecho_core::link::Interest;
use derecho_node::WaitOutcome;

use super::entity::not_yet;
use super::{ParticipantInner, ProfileBinding};
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::topic::TopicEntity;

/// Draft of an endpoint, from which enabling starts the endpoint.
pub(crate) trait EndpointDraft {
    /// State of the endpoint once it is enabled.
    type Started;

    /// Profile from which the policies come, if there is one.
    fn profile_binding(&self) -> Option<&ProfileBinding>;

    /// The participant's number for the started endpoint.
    fn id(started: &Self::Started) -> u64;
}

/// An entity that contains endpoints: a publisher, a subscriber, or the participant.
pub(crate) trait EndpointContainer: Send + Sync {
    /// Whether an entity that is created in this one is enabled at once.
    fn enables(&self) -> bool;

    /// Returns an error unless contained entities may be enabled.
    fn check_enables(&self) -> DdsResult<()>;
}

/// See the [module](self).
pub(crate) struct EnablingState<D: EndpointDraft> {
    lifecycle: Lifecycle,
    started: OnceLock<D::Started>,
    draft: Mutex<Option<D>>,
    /// The participant's number for the endpoint until it is enabled.
    provisional: u64,
    of: Arc<dyn EndpointContainer>,
    topic: Arc<TopicEntity>,
    /// Kind of endpoint, for errors: `a writer`.
    what: &'static str,
}

impl<D: EndpointDraft> EnablingState<D> {
    /// Creates the enabling state of an endpoint that is not enabled.
    pub(crate) fn new(
        what: &'static str,
        of: Arc<dyn EndpointContainer>,
        provisional: u64,
        topic: &Arc<TopicEntity>,
        draft: D,
    ) -> EnablingState<D> {
        EnablingState {
            lifecycle: Lifecycle::default(),
            started: OnceLock::new(),
            draft: Mutex::new(Some(draft)),
            provisional,
            of,
            topic: Arc::clone(topic),
            what,
        }
    }

    /// Whether the endpoint is enabled, and whether it still exists.
    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Whether the endpoint is enabled.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        self.lifecycle.is_enabled()
    }

    /// State of the endpoint since it was enabled.
    #[inline(always)]
    pub(crate) fn started(&self) -> Option<&D::Started> {
        self.started.get()
    }

    /// Draft of the endpoint; none once the endpoint is enabled.
    pub(crate) fn draft(&self) -> MutexGuard<'_, Option<D>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The participant's number for the endpoint.
    pub(crate) fn id(&self) -> u64 {
        self.started().map_or(self.provisional, D::id)
    }

    /// Returns an error unless the endpoint is enabled.
    #[inline]
    pub(crate) fn check(&self) -> DdsResult<()> {
        if self.is_enabled() { Ok(()) } else { self.refuse() }
    }

    #[cold]
    fn refuse(&self) -> DdsResult<()> {
        self.lifecycle.check(self.name())
    }

    /// Returns an error if the endpoint is deleted.
    pub(crate) fn check_there(&self) -> DdsResult<()> {
        self.lifecycle.check_there(self.name())
    }

    fn name(&self) -> String {
        format!("{} of `{}`", self.what, self.topic.policies.name)
    }

    /// Waits until `ready` holds, which news or also hints may bring. The end of the endpoint, and
    /// of the participant's membership for good, are errors.
    pub(crate) fn wait(
        &self,
        participant: &ParticipantInner,
        awaited: Interest,
        deadline: Option<Time>,
        mut ready: impl FnMut() -> bool,
    ) -> DdsResult<WaitOutcome> {
        let membership = &participant.membership;
        let ready = || ready() || membership.is_out_for_good() || !self.is_enabled();
        let waited = participant.engine.wait_for(awaited, deadline, ready);
        self.check()?;
        match waited {
            WaitOutcome::Stopped => {
                let name = &self.topic.policies.name;
                Err(DdsError::AlreadyDeleted(format!("the participant of `{name}` has left")))
            }
            _ if membership.is_out_for_good() => Err(membership.error()),
            waited => Ok(waited),
        }
    }

    /// Waits until `holds` while the participant is a member. If the time is over before that, the
    /// error says what `missing` says.
    pub(crate) fn wait_until(
        &self,
        participant: &ParticipantInner,
        timeout: Timeout,
        holds: impl Fn() -> bool,
        missing: impl FnOnce() -> String,
    ) -> DdsResult<()> {
        self.check()?;
        let membership = &participant.membership;
        // The answer is kept: a second look could find that it holds no longer.
        let mut is_there = false;
        let ready = || {
            is_there = holds() && !membership.is_out();
            is_there
        };
        self.wait(participant, Interest::Hints, timeout.deadline(), ready)?;
        match is_there {
            true => Ok(()),
            false if membership.is_out() => Err(membership.error()),
            false => Err(DdsError::Timeout(missing())),
        }
    }

    /// Whether the endpoint is enabled when it is created.
    pub(crate) fn is_at_once(&self) -> bool {
        self.of.enables() && self.topic.is_enabled()
    }

    /// Enables the endpoint: `start` announces it, and `then` runs before any thread can end it.
    /// Does nothing if the endpoint is already enabled. The participant and the topic must be
    /// enabled before (I-181).
    pub(crate) fn enable(
        &self,
        participant: &ParticipantInner,
        start: impl FnOnce(&D) -> DdsResult<D::Started>,
        then: impl FnOnce(),
    ) -> DdsResult<()> {
        let mut draft = self.draft();
        self.check_there()?;
        let Some(settings) = &*draft else { return Ok(()) };
        self.of.check_enables()?;
        if !self.topic.is_enabled() {
            return Err(not_yet(&format!("topic `{}` of this endpoint", self.topic.policies.name)));
        }
        let started = start(settings)?;
        if let Some(binding) = settings.profile_binding().cloned() {
            participant.profiles.note_endpoint(D::id(&started), &self.topic.policies, binding);
        }
        self.started.get_or_init(|| started);
        self.lifecycle.enable();
        then();
        *draft = None;
        drop(draft);
        // Listeners are called for events since the announcement.
        participant.dispatcher.wake();
        Ok(())
    }

    /// Deletes the endpoint. Returns whether it was enabled until now.
    pub(crate) fn end(&self) -> bool {
        // A thread of the parent process may have held the lock at the fork, and cannot release
        // it here.
        if self.lifecycle.is_inherited() {
            return false;
        }
        // Waits for a thread that is enabling the endpoint.
        let _draft = self.draft();
        self.lifecycle.delete() == Some(true)
    }
}
