//! How a late joiner takes in the records that a holder transfers.
//!
//! Owns: partly received records, and where complete ones go. Never does: trust that the received
//! data is consistent.

use super::super::parcel::{BlockHead, NAME_BYTES, Place, RECORD_HEAD, RecordHead, Told};
use super::super::store::Store;
use super::{Asked, Keeper, Stage, Taken};

impl Keeper {
    /// Takes in the announced streams of a transfer, in the sender's order.
    pub(in crate::storage) fn given(&mut self, streams: &[Told], version: u64, since: Place) {
        self.since = Some(since).filter(|(epoch, _)| *epoch > 0);
        if let Stage::Lacks(lacking) = &mut self.stage
            && lacking.waiting.is_none()
            && !self.store.begin_at(version)
        {
            // The request goes to another holder, from the start.
            lacking.asked = None;
            return;
        }
        let known = streams.iter().map(|told| learn(&mut self.store, *told)).collect();
        if let Some(asked) = self.asked() {
            (asked.streams, asked.version) = (Some(known), version);
        }
    }

    /// Takes in a block of the requested records.
    pub(in crate::storage) fn take_block(&mut self, head: BlockHead, mut run: &[u8]) -> Taken {
        let Stage::Lacks(lacking) = &mut self.stage else { return Taken::Nonsense };
        let Some(Asked { streams: Some(streams), version, partial, .. }) = &mut lacking.asked
        else {
            return Taken::Nonsense;
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
            match head.told(bytes) {
                Some(Some(told)) => {
                    streams.push(learn(&mut self.store, told));
                    match partial.is_empty() {
                        true => run = &run[NAME_BYTES..],
                        false => partial.clear(),
                    }
                    continue;
                }
                Some(None) => return Taken::Nonsense,
                None => {}
            }
            let Some(&stream) = streams.get(head.stream as usize) else { return Taken::Nonsense };
            if head.version.max(head.number) == u64::MAX {
                // No record could follow this one.
                return Taken::Nonsense;
            }
            if lacking.waiting.is_some() {
                self.store.resume(head.version);
                self.store.restore(stream, head.number, bytes);
            } else if !self.store.put_before((stream, head.number), head.version, bytes) {
                return Taken::Nonsense;
            }
            match partial.is_empty() {
                true => run = &run[RECORD_HEAD + bytes.len()..],
                false => partial.clear(),
            }
        }
        match (head.last, partial.is_empty()) {
            (false, _) => Taken::More,
            (true, true) if lacking.waiting.is_none() => {
                (lacking.ripe_at, lacking.asked) = (Some(head.version), None);
                Taken::Whole
            }
            (true, true) => {
                self.store.resume(*version);
                self.begin_replay();
                Taken::Whole
            }
            (true, false) => Taken::Nonsense,
        }
    }
}

/// Takes over what the sender knows of a stream. Returns this store's number for the stream.
fn learn(store: &mut Store, (stream, (met, over)): Told) -> u32 {
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
