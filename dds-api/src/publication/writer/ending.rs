//! A writer's last record, which announces its end in a stream that other writers continue to
//! use (I-214), and disposes its instances (I-216).
//!
//! Owns: that record. Never does: wait for long; if readers make no room, the end of the writer is
//! not announced before the end of its stream.

use std::sync::atomic::Ordering;

use derecho_core::multicast::claim::{ClaimError, SenderMemory};
use idl_xtypes::TopicData;

use super::WriterCore;
use crate::infrastructure::Timeout;
use crate::mapping::record::{NoticeRecord, WriterNotice};

/// Maximum wait for room.
const ROOM_LIMIT: Timeout = Timeout::millis(100);

impl<T: TopicData> WriterCore<T> {
    /// The notice of this writer's end; `None` if none is due: the writer's stream ends with the
    /// writer, and no instance is disposed.
    fn end_notice(&self, id: u64, memory: &SenderMemory) -> Option<WriterNotice> {
        let has_instances =
            || memory.committed() > 0 && T::dynamic_type(self.topic.support()).is_keyed();
        if self.shared.autodispose.load(Ordering::Relaxed) && has_instances() {
            return Some(WriterNotice::Disposed);
        }
        let shares = self.participant.engine.act(|machine, _, _| machine.shares_stream(id));
        shares.then_some(WriterNotice::Ended)
    }

    /// Writes the record that announces the end of this writer, if one is due.
    pub(in crate::publication) fn write_end_record(&self) {
        let Some(started) = self.enabling.started() else { return };
        let id = started.id;
        let (deadline, later) = (ROOM_LIMIT.deadline(), self.shared.writer_memory());
        let writer_memory = later.as_deref().unwrap_or(&started.first_memory);
        let Some(notice) = self.end_notice(id, &writer_memory.memory) else { return };
        let tag = self.shared.policy_metadata().tag;
        let record = NoticeRecord::new(id, notice, tag, started.kept);
        let (membership, engine) = (&self.participant.membership, &self.participant.engine);
        while membership.is_in(writer_memory.life) {
            match writer_memory.write_notice(&record) {
                Ok(()) => {
                    engine.poke();
                    return;
                }
                Err(ClaimError::TooLong { .. }) => return,
                Err(ClaimError::Full) => {
                    let ready = || {
                        writer_memory.memory.has_room(record.size())
                            || !membership.is_in(writer_memory.life)
                    };
                    if engine.wait(deadline, ready) != derecho_node::WaitOutcome::Ready {
                        return;
                    }
                }
            }
        }
    }
}
