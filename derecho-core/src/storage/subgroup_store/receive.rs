//! How a late joiner takes in the records that a holder transfers.
//!
//! Owns: partly received records, and where complete ones go. Never does: trust that the received
//! data is consistent.

use super::super::store::Store;
use super::super::store_message::{
    AnnouncedStream, BlockHead, EpochPosition, NAME_BYTES, RECORD_HEAD, RecordHead,
};
use super::{BlockResult, StoreReception, StoreStage, SubgroupStore};

impl SubgroupStore {
    /// Takes in the announced streams of a transfer, in the sender's order.
    pub(in crate::storage) fn begin_transfer(
        &mut self,
        streams: &[AnnouncedStream],
        version: u64,
        since: EpochPosition,
    ) {
        self.log_beginning = Some(since).filter(|(epoch, _)| *epoch > 0);
        if let StoreStage::Lacks(lacking) = &mut self.stage
            && lacking.waiting.is_none()
            && !self.store.begin_at(version)
        {
            // The request goes to another holder, from the start.
            self.requester.cancel();
            return;
        }
        let known = streams.iter().map(|announced| learn(&mut self.store, *announced)).collect();
        if let Some(reception) = self.requester.received() {
            (reception.streams, reception.version) = (Some(known), version);
        }
    }

    /// Takes in a block of the requested records.
    pub(in crate::storage) fn take_block(
        &mut self,
        head: BlockHead,
        mut run: &[u8],
    ) -> BlockResult {
        let StoreStage::Lacks(lacking) = &mut self.stage else { return BlockResult::Invalid };
        let Some(StoreReception { streams: Some(streams), version, partial }) =
            self.requester.received()
        else {
            return BlockResult::Invalid;
        };
        while !run.is_empty() {
            // A record that lies in this block completely is not copied twice.
            let found = match partial.is_empty() {
                true => whole_record(run),
                false => {
                    let length = RecordHead::read(partial).map_or(0, |head| head.length as usize);
                    let missing = RECORD_HEAD + length - partial.len().min(RECORD_HEAD + length);
                    let (more, rest) = run.split_at(run.len().min(missing));
                    partial.extend_from_slice(more);
                    run = rest;
                    whole_record(partial)
                }
            };
            let Some((head, bytes)) = found else {
                if partial.is_empty() {
                    partial.extend_from_slice(run);
                    run = &[];
                }
                continue;
            };
            match head.announced_stream(bytes) {
                Some(Some(announced)) => {
                    streams.push(learn(&mut self.store, announced));
                    match partial.is_empty() {
                        true => run = &run[NAME_BYTES..],
                        false => partial.clear(),
                    }
                    continue;
                }
                Some(None) => return BlockResult::Invalid,
                None => {}
            }
            let Some(&stream) = streams.get(head.stream as usize) else {
                return BlockResult::Invalid;
            };
            if head.position.max(head.number) == u64::MAX {
                // No record could follow this one.
                return BlockResult::Invalid;
            }
            if lacking.waiting.is_some() {
                self.store.resume(head.position);
                self.store.restore(stream, head.number, bytes);
            } else if !self.store.put_before(stream, head.number, head.position, bytes) {
                return BlockResult::Invalid;
            }
            match partial.is_empty() {
                true => run = &run[RECORD_HEAD + bytes.len()..],
                false => partial.clear(),
            }
        }
        match (head.last, partial.is_empty()) {
            (false, _) => BlockResult::More,
            (true, true) if lacking.waiting.is_none() => {
                lacking.complete_at = Some(head.version);
                self.requester.cancel();
                BlockResult::Complete
            }
            (true, true) => {
                self.store.resume(*version);
                self.begin_replay();
                BlockResult::Complete
            }
            (true, false) => BlockResult::Invalid,
        }
    }
}

/// Takes over what the sender knows of a stream. Returns this store's number for the stream.
fn learn(store: &mut Store, (stream, (met, over)): AnnouncedStream) -> u32 {
    store.meet(stream, met);
    if over < u64::MAX {
        store.end(stream, over);
    }
    store.stream(stream)
}

/// Returns the record at the beginning of these bytes, if it is complete.
fn whole_record(bytes: &[u8]) -> Option<(RecordHead, &[u8])> {
    let head = RecordHead::read(bytes)?;
    Some((head, bytes.get(RECORD_HEAD..RECORD_HEAD + head.length as usize)?))
}
