//! RustDDS by the measuring protocol: bytes with adapters of their own, without a key.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use peer_protocol::{Peer, PeerError, PeerOptions, PeerReader, PeerResult, PeerWriter};
use rustdds::no_key::{
    DataWriter, Decode, DefaultDecoder, DeserializerAdapter, SerializerAdapter, SimpleDataReader,
};
use rustdds::policy::{History, Reliability, ResourceLimits};
use rustdds::{
    DataReaderStatus, DataWriterStatus, DomainParticipant, QosPolicies, QosPolicyBuilder,
    RepresentationIdentifier, StatusEvented, Topic, TopicKind,
};

/// Bytes and number of samples that a writer keeps until they are acknowledged, at most: less than
/// the receive buffer of a socket. A full history makes the writer wait.
const WRITER_HISTORY: HistoryLimits = HistoryLimits { bytes: 2 << 20, most: 1000, fewest: 2 };
/// Limits of a reader, which acknowledges before the application takes: a full history drops its
/// oldest samples, so it is larger than a measurement needs.
const READER_HISTORY: HistoryLimits = HistoryLimits { bytes: 1 << 30, most: 1_000_000, fewest: 32 };
/// Longest wait of a write for room, and for acknowledgements.
const STALL: Duration = Duration::from_secs(10);

struct HistoryLimits {
    bytes: usize,
    most: usize,
    fewest: usize,
}

/// Encoding of a sample: the bytes themselves.
struct PlainAdapter;

#[derive(Clone)]
struct PlainDecoder;

impl SerializerAdapter<Bytes> for PlainAdapter {
    type Error = Infallible;

    fn output_encoding() -> RepresentationIdentifier {
        RepresentationIdentifier::CDR_LE
    }

    fn to_bytes(value: &Bytes) -> Result<Bytes, Infallible> {
        Ok(value.clone())
    }
}

impl<'de> Decode<'de, Bytes> for PlainDecoder {
    type Error = Infallible;

    fn decode_bytes(
        self,
        input_bytes: &'de [u8],
        _encoding: RepresentationIdentifier,
    ) -> Result<Bytes, Infallible> {
        Ok(Bytes::copy_from_slice(input_bytes))
    }
}

impl DeserializerAdapter<Bytes> for PlainAdapter {
    type Error = Infallible;
    type Decoded = Bytes;

    fn supported_encodings() -> &'static [RepresentationIdentifier] {
        &[RepresentationIdentifier::CDR_LE]
    }

    fn transform_decoded(decoded: Bytes) -> Bytes {
        decoded
    }
}

impl DefaultDecoder<Bytes> for PlainAdapter {
    type Decoder = PlainDecoder;
    const DECODER: PlainDecoder = PlainDecoder;
}

struct RustDdsPeer {
    participant: DomainParticipant,
    size: usize,
}

struct RustDdsWriter {
    writer: DataWriter<Bytes, PlainAdapter>,
    matched: i32,
}

struct RustDdsReader {
    reader: SimpleDataReader<Bytes, PlainAdapter>,
    matched: i32,
}

/// Wakes the thread that waits for samples.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn failed(error: impl std::fmt::Debug) -> PeerError {
    format!("RustDDS: {error:?}").into()
}

impl RustDdsPeer {
    fn qos(&self, history: HistoryLimits) -> QosPolicies {
        let samples = (history.bytes / self.size).clamp(history.fewest, history.most) as i32;
        QosPolicyBuilder::new()
            .reliability(Reliability::Reliable { max_blocking_time: STALL.into() })
            .history(History::KeepAll)
            .resource_limits(ResourceLimits {
                max_samples: samples,
                max_instances: 1,
                max_samples_per_instance: samples,
            })
            .build()
    }

    fn topic(&self, name: &str, qos: &QosPolicies) -> PeerResult<Topic> {
        let (name, of) = (name.to_owned(), "Bytes".to_owned());
        self.participant.create_topic(name, of, qos, TopicKind::NoKey).map_err(failed)
    }
}

impl Peer for RustDdsPeer {
    type Writer = RustDdsWriter;
    type Reader = RustDdsReader;

    fn open(options: &PeerOptions) -> PeerResult<RustDdsPeer> {
        let participant = DomainParticipant::new(0).map_err(failed)?;
        Ok(RustDdsPeer { participant, size: options.size })
    }

    fn writer(&self, topic: &str, _readers: usize) -> PeerResult<RustDdsWriter> {
        let qos = self.qos(WRITER_HISTORY);
        let publisher = self.participant.create_publisher(&qos).map_err(failed)?;
        let topic = self.topic(topic, &qos)?;
        let writer = publisher.create_datawriter_no_key(&topic, Some(qos)).map_err(failed)?;
        Ok(RustDdsWriter { writer, matched: 0 })
    }

    fn reader(&self, topic: &str, _readers: usize) -> PeerResult<RustDdsReader> {
        let qos = self.qos(READER_HISTORY);
        let subscriber = self.participant.create_subscriber(&qos).map_err(failed)?;
        let topic = self.topic(topic, &qos)?;
        let reader = subscriber.create_simple_datareader_no_key(&topic, Some(qos));
        Ok(RustDdsReader { reader: reader.map_err(failed)?, matched: 0 })
    }
}

impl PeerWriter for RustDdsWriter {
    fn matched(&mut self) -> PeerResult<usize> {
        while let Some(status) = self.writer.try_recv_status() {
            if let DataWriterStatus::PublicationMatched { current, .. } = status {
                self.matched = current.count();
            }
        }
        Ok(usize::try_from(self.matched)?)
    }

    fn send(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) -> PeerResult<()> {
        let mut bytes = vec![0; size];
        fill(&mut bytes);
        self.writer.write(bytes.into(), None).map_err(failed)
    }

    /// Waits for acknowledgements for a limited time; what the subscribers count decides.
    fn finish(&mut self) -> PeerResult<()> {
        self.writer.wait_for_acknowledgments(STALL).map_err(failed)?;
        Ok(())
    }
}

impl PeerReader for RustDdsReader {
    fn matched(&mut self) -> PeerResult<usize> {
        while let Some(status) = self.reader.try_recv_status() {
            if let DataReaderStatus::SubscriptionMatched { current, .. } = status {
                self.matched = current.count();
            }
        }
        Ok(usize::try_from(self.matched)?)
    }

    fn receive(&mut self, limit: Duration, mut each: impl FnMut(&[u8])) -> PeerResult<usize> {
        let mut messages = 0;
        for is_first in [true, false] {
            self.reader.drain_read_notifications();
            if is_first {
                // Before the last look: a sample after it wakes this thread.
                let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
                self.reader.set_waker(Some(waker));
            }
            while let Some(sample) = self.reader.try_take_one().map_err(failed)? {
                each(&sample.into_value());
                messages += 1;
            }
            if messages > 0 {
                break;
            }
            if is_first {
                std::thread::park_timeout(limit);
            }
        }
        Ok(messages)
    }
}

fn main() -> PeerResult<()> {
    peer_protocol::run::<RustDdsPeer>()
}
