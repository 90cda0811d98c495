//! The log service thread. It joins topics of other participants that must be logged here, because
//! that needs memory, which no turn can allocate. It also reads logs for participants that keep
//! none.
//!
//! Owns: when it checks, and its end. Never does: keep a participant alive that its application
//! has dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::assembly::DomainEngine;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::past::server::PastServer;

/// Interval between checks for topics of other participants that must be logged here.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// See the [module](self).
pub(crate) struct LogServiceThread {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LogServiceThread {
    pub(super) fn start(engine: DomainEngine) -> DdsResult<LogServiceThread> {
        let over = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&over);
        let has_to_log = engine.act(|machine, _, _| machine.has_to_log());
        let (past, mut server) =
            (engine.act(|machine, _, _| machine.past()), PastServer::default());
        let serve = move || {
            while !is_over.load(Ordering::Acquire) {
                if has_to_log.load(Ordering::Acquire) {
                    engine.act(|machine, link, effects| machine.log_topics(link, effects));
                }
                for (from, request) in past.take_received() {
                    let log = engine.act(|machine, _, _| machine.complete_log_of(request.key));
                    let page = server.answer(log, from, &request);
                    engine.act(|machine, _, effects| {
                        machine.answer_past(from, request, page, effects);
                    });
                }
                std::thread::park_timeout(CHECK_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("squall-service".into()).spawn(serve);
        let thread = thread.map_err(|error| {
            DdsError::OutOfResources(format!("the thread that serves logs cannot start: {error}"))
        })?;
        Ok(LogServiceThread { over, thread })
    }

    /// Ends the thread and waits for its end, at most for one call in progress.
    pub(super) fn join(self) {
        self.over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that serves logs panicked");
        }
    }
}
