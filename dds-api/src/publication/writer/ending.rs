//! A writer's last record, which announces its end in a stream that other writers continue to
//! use (I-214).
//!
//! Owns: that record. Never does: wait for long; if readers make no room, the end of the writer is
//! not announced before the end of its stream.

use derecho_core::multicast::claim::ClaimError;
use derecho_node::clock;
use idl_xtypes::TopicData;

use super::WriterCore;
use crate::infrastructure::Timeout;
use crate::infrastructure::this_thread::this_thread;
use crate::mapping::record::{
    HEADER, PayloadKind, PolicyMetadata, RecordEffect, RecordMetadata, write_metadata,
};

/// Maximum wait for room.
const ROOM_LIMIT: Timeout = Timeout::millis(100);

impl<T: TopicData> WriterCore<T> {
    /// Writes a record that announces the end of this writer, unless its stream ends with it.
    pub(in crate::publication) fn write_end_record(&self) {
        let Some(started) = self.enabling.started() else { return };
        let id = started.id;
        if !self.participant.engine.act(|machine, _, _| machine.shares_stream(id)) {
            return;
        }
        let policy_metadata =
            PolicyMetadata { tag: self.shared.policy_metadata().tag, ..PolicyMetadata::default() };
        // Differs from the key of every sample, so the record replaces none where samples are kept.
        let key = started.kept.then(|| !u128::from(id));
        let with = RecordMetadata {
            kind: PayloadKind::Notice,
            effect: RecordEffect::Alive,
            mark: 0,
            policies: policy_metadata,
            key,
        };
        let size = HEADER + with.size();
        let (membership, engine) = (&self.participant.membership, &self.participant.engine);
        let (deadline, later) = (ROOM_LIMIT.deadline(), self.shared.writer_memory());
        let writer_memory = later.as_deref().unwrap_or(&started.first_memory);
        while membership.is_in(writer_memory.life) {
            match writer_memory.memory.claim_on(this_thread(), size) {
                Ok(claim) => {
                    let time = clock::wall(clock::now());
                    claim.commit_on(this_thread(), size, |_, record| {
                        write_metadata::<T>(record, id as u32, time, &with);
                    });
                    writer_memory.bells.before_looking();
                    writer_memory.bells.ring(writer_memory.memory.audience());
                    engine.poke();
                    return;
                }
                Err(ClaimError::TooLong { .. }) => return,
                Err(ClaimError::Full) => {
                    let ready = || {
                        writer_memory.memory.has_room(size) || !membership.is_in(writer_memory.life)
                    };
                    if engine.wait(deadline, ready) != derecho_node::WaitOutcome::Ready {
                        return;
                    }
                }
            }
        }
    }
}
