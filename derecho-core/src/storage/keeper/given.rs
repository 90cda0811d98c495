//! How a newcomer takes in what a holder gives it.
//!
//! Owns: what comes in parts, and where it goes. Never does: believe that what comes fits together.

use super::super::parcel::{BlockHead, NAME_BYTES, Place, RECORD_HEAD, RecordHead, Told};
use super::super::store::Store;
use super::{Asked, Keeper, Stage, Taken};

impl Keeper {
    /// The streams of what comes, as the one who gives it calls them.
    pub(in crate::storage) fn given(&mut self, streams: &[Told], version: u64, since: Place) {
        self.since = Some(since).filter(|(epoch, _)| *epoch > 0);
        if let Stage::Lacks(lacking) = &mut self.stage
            && lacking.waiting.is_none()
            && !self.store.begin_at(version)
        {
            // It is asked of another one, from the beginning on.
            lacking.asked = None;
            return;
        }
        let known = streams.iter().map(|told| learn(&mut self.store, *told)).collect();
        if let Some(asked) = self.asked() {
            (asked.streams, asked.version) = (Some(known), version);
        }
    }

    /// Takes in a block of what it has asked for.
    pub(in crate::storage) fn take_block(&mut self, head: BlockHead, mut run: &[u8]) -> Taken {
        let Stage::Lacks(lacking) = &mut self.stage else { return Taken::Nonsense };
        let Some(Asked { streams: Some(streams), version, partial, .. }) = &mut lacking.asked
        else {
            return Taken::Nonsense;
        };
        while !run.is_empty() {
            // A record that lies in this block as a whole is not copied twice.
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
                // Nothing could come after it.
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

/// What the one who gives knows of a stream is known here. Returns what it is called here.
fn learn(store: &mut Store, (stream, (met, over)): Told) -> u32 {
    store.meet(stream, met);
    if over < u64::MAX {
        store.end(stream, over);
    }
    store.stream(stream)
}

/// The record at the beginning of these bytes, if all of it is there.
fn whole_record(bytes: &[u8]) -> Option<(RecordHead, &[u8])> {
    let head = RecordHead::read(bytes)?;
    Some((head, bytes.get(RECORD_HEAD..RECORD_HEAD + head.length as usize)?))
}
