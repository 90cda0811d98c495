//! A member of a topic of the DDS interface.

use dds_api::prelude::*;
use derecho_node::EngineCounters;

use super::super::clock;
use super::super::control::HarnessControl;
use super::super::payload::{Payload, fill, has_stamp};
use super::super::publish::{WriteMethod, stamp_every};
use super::super::role::{LOOK, meet};
use super::super::subscribe::carries_payload;
use super::super::subscriber_stats::SubscriberStats;
use super::{MemberArgs, TopicAccess};
use crate::outcome::Failure;

/// The topic of one measurement.
const TOPIC: &str = "perf";

/// A participant with a writer, a reader, or both.
pub(super) struct DdsAccess<P: Payload> {
    reader: Option<DataReader<P>>,
    writer: Option<DataWriter<P>>,
    participant: DomainParticipant,
    cast: (usize, usize),
    method: WriteMethod,
    /// Sample to copy from, and the size to request.
    sample: Box<P>,
    size: usize,
    copied: u64,
}

impl<P: Payload> DdsAccess<P> {
    pub(super) fn join(args: &MemberArgs) -> Result<Self, Failure> {
        let (size, cast) = (args.part.size, args.counts());
        let participant = args.part.means.join()?;
        let delivery = &args.part.means;
        let reader = match args.reads {
            true => Some(delivery.reader::<P>(&participant, TOPIC, size)?),
            false => None,
        };
        let writer = match args.writes {
            true => Some(delivery.writer::<P>(&participant, TOPIC, size)?),
            false => None,
        };
        let mut sample = Box::<P>::default();
        sample.resize(size);
        let method = args.manner.manner(size);
        let cast = (cast.writers as usize, cast.readers as usize);
        Ok(DdsAccess { reader, writer, participant, cast, method, sample, size, copied: 0 })
    }
}

/// Fills the next sample and writes it.
fn write<P: Payload>(
    writer: &DataWriter<P>,
    sample: &mut P,
    method: WriteMethod,
    size: usize,
    index: u64,
    stamp: u64,
) -> DdsResult<()> {
    match method {
        WriteMethod::Loan => {
            let mut loan = P::loan(writer)?;
            loan.resize(size);
            fill(loan.bytes_mut(), index, stamp);
            loan.publish()
        }
        WriteMethod::Copy => {
            fill(sample.bytes_mut(), index, stamp);
            writer.write(sample)
        }
    }
}

impl<P: Payload> TopicAccess for DdsAccess<P> {
    type Writer = InstanceHandle;

    fn meet(&self, control: &HarnessControl) -> Result<bool, Failure> {
        let (writers, readers) = self.cast;
        if let Some(reader) = &self.reader
            && !meet(control, || reader.wait_for_writers(writers, LOOK))?
        {
            return Ok(false);
        }
        match &self.writer {
            Some(writer) => meet(control, || writer.wait_for_readers(readers, LOOK)),
            None => Ok(true),
        }
    }

    fn counters(&self) -> &EngineCounters {
        self.participant.counters()
    }

    fn write(&mut self, first: u64, most: u64) -> Result<u64, Failure> {
        let Some(writer) = &self.writer else { return Ok(0) };
        let (method, size) = (self.method, self.size);
        let mut written = 0;
        while written < most && writer.has_room_for(&self.sample) {
            let index = first + written;
            let stamped = has_stamp(size) && index.is_multiple_of(stamp_every(size));
            let stamp = if stamped { clock::now() } else { 0 };
            match write(writer, &mut self.sample, method, size, index, stamp) {
                Ok(()) => written += 1,
                Err(DdsError::Timeout(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }

    fn take(&mut self, stats: &mut SubscriberStats<InstanceHandle>) -> Result<u64, Failure> {
        let Some(reader) = &self.reader else { return Ok(0) };
        let mut taken = 0;
        for sample in reader.take_data(.., Timeout::NOW)? {
            taken += 1;
            self.copied += u64::from(!sample.is_borrowed() || carries_payload::<P>());
            stats.look(sample.bytes(), sample.info().publication_handle);
        }
        Ok(taken)
    }

    fn wait(&self, writing: bool) -> Result<(), Failure> {
        let samples = || self.reader.as_ref().is_some_and(DataReader::has_samples);
        let room = || self.writer.as_ref().is_some_and(|w| w.has_room_for(&self.sample));
        self.participant.wait_until(LOOK, || samples() || (writing && room()))?;
        Ok(())
    }

    fn copies(&self) -> (f64, u64) {
        let in_place = P::PLAIN && self.method == WriteMethod::Loan;
        (if in_place { 0.0 } else { 1.0 }, self.copied)
    }

    fn sample_bytes(&self) -> usize {
        size_of::<ValidSample<P>>()
    }
}
