//! How a writer or reader comes to work, and how that ends.
//!
//! ```text
//!   draft ──enable──> started, announced, matched ──delete, or the last handle──> gone
//! ```
//! Owns: what an endpoint is to be until it is enabled, and the order in which it is. Never does: announce it; it does that itself.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::entity::not_yet;
use super::{Following, Inner};
use crate::infrastructure::DdsResult;
use crate::infrastructure::lifecycle::Lifecycle;
use crate::topic::TopicEntity;

/// What an endpoint is to be once it is enabled.
pub(crate) trait Draft {
    /// What it has since then.
    type Started;

    /// The profile that its policies are by, if they are.
    fn following(&self) -> Option<&Following>;

    /// What its participant calls it since then.
    fn id(started: &Self::Started) -> u64;
}

/// Whoever endpoints belong to: a publisher, a subscriber, or the participant.
pub(crate) trait Encloses: Send + Sync {
    /// Whether what it makes is enabled as it is made.
    fn enables(&self) -> bool;

    /// An error unless what it contains may be enabled.
    fn check_enables(&self) -> DdsResult<()>;
}

/// See the [module](self).
pub(crate) struct Enabling<D: Draft> {
    lifecycle: Lifecycle,
    started: OnceLock<D::Started>,
    draft: Mutex<Option<D>>,
    /// What its participant calls it until it is enabled.
    provisional: u64,
    of: Arc<dyn Encloses>,
    topic: Arc<TopicEntity>,
    /// What it is, for errors: `a writer`.
    what: &'static str,
}

impl<D: Draft> Enabling<D> {
    /// Of an endpoint that is not enabled.
    pub(crate) fn new(
        what: &'static str,
        (of, provisional): (Arc<dyn Encloses>, u64),
        topic: &Arc<TopicEntity>,
        draft: D,
    ) -> Enabling<D> {
        Enabling {
            lifecycle: Lifecycle::default(),
            started: OnceLock::new(),
            draft: Mutex::new(Some(draft)),
            provisional,
            of,
            topic: Arc::clone(topic),
            what,
        }
    }

    /// Whether it is enabled, and there.
    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// The same.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        self.lifecycle.is_enabled()
    }

    /// What it has since it was enabled.
    #[inline(always)]
    pub(crate) fn started(&self) -> Option<&D::Started> {
        self.started.get()
    }

    /// What it is to be; none once it is enabled.
    pub(crate) fn draft(&self) -> MutexGuard<'_, Option<D>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its participant calls it.
    pub(crate) fn id(&self) -> u64 {
        self.started().map_or(self.provisional, D::id)
    }

    /// An error unless it is enabled.
    #[inline]
    pub(crate) fn check(&self) -> DdsResult<()> {
        if self.is_enabled() { Ok(()) } else { self.refuse() }
    }

    #[cold]
    fn refuse(&self) -> DdsResult<()> {
        self.lifecycle.check(self.name())
    }

    /// An error if it is deleted.
    pub(crate) fn check_there(&self) -> DdsResult<()> {
        self.lifecycle.check_there(self.name())
    }

    fn name(&self) -> String {
        format!("{} of `{}`", self.what, self.topic.policies.name)
    }

    /// Whether it is enabled as it is made.
    pub(crate) fn is_at_once(&self) -> bool {
        self.of.enables() && self.topic.is_enabled()
    }

    /// Enables it: `start` announces it, and `then` happens before anybody can end it. Once it is enabled, nothing happens.
    pub(crate) fn enable(
        &self,
        participant: &Inner,
        start: impl FnOnce(&D) -> DdsResult<D::Started>,
        then: impl FnOnce(),
    ) -> DdsResult<()> {
        let mut draft = self.draft();
        self.check_there()?;
        let Some(to_be) = &*draft else { return Ok(()) };
        self.of.check_enables()?;
        if !self.topic.is_enabled() {
            return Err(not_yet(&format!("its topic `{}`", self.topic.policies.name)));
        }
        let started = start(to_be)?;
        if let Some(following) = to_be.following().cloned() {
            participant.profiles.note_endpoint(D::id(&started), &self.topic.policies, following);
        }
        self.started.get_or_init(|| started);
        self.lifecycle.enable();
        then();
        *draft = None;
        Ok(())
    }

    /// It is deleted from now on. Whether it was enabled until now.
    pub(crate) fn end(&self) -> bool {
        // Whoever had the lock in the process that this one was forked from is not here to let go of it.
        if self.lifecycle.is_inherited() {
            return false;
        }
        // Whoever enables it is done.
        let _draft = self.draft();
        self.lifecycle.delete() == Some(true)
    }
}
