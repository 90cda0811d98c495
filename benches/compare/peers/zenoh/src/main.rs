//! zenoh by the measuring protocol: the process that leads listens on a UNIX socket, and the others
//! connect to it. Large payloads go through shared memory, as zenoh does by itself.

use std::time::Duration;

use peer_protocol::{Peer, PeerOptions, PeerReader, PeerResult, PeerWriter};
use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Reliability};
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait};

/// Maximum number of messages in the channel of a subscriber.
const CHANNEL: usize = 1024;

struct ZenohPeer {
    session: Session,
    index: usize,
}

struct ZenohWriter {
    session: Session,
    publisher: Publisher<'static>,
    topic: String,
    _token: LivelinessToken,
}

struct ZenohReader {
    session: Session,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    topic: String,
    _token: LivelinessToken,
}

/// Number of processes that hold a token below a key.
fn alive(session: &Session, key: &str) -> PeerResult<usize> {
    let replies = session.liveliness().get(key).wait()?;
    Ok(replies.into_iter().filter(|reply| reply.result().is_ok()).count())
}

impl Peer for ZenohPeer {
    type Writer = ZenohWriter;
    type Reader = ZenohReader;

    fn open(options: &PeerOptions) -> PeerResult<ZenohPeer> {
        let socket = std::env::temp_dir().join(format!("{}.zenoh", options.session));
        let endpoint = format!("[\"unixsock-stream/{}\"]", socket.display());
        let mut config = Config::default();
        config.insert_json5("mode", "\"peer\"")?;
        config.insert_json5("scouting/multicast/enabled", "false")?;
        config.insert_json5("scouting/gossip/enabled", "false")?;
        config.insert_json5("transport/shared_memory/enabled", "true")?;
        if options.leads {
            config.insert_json5("listen/endpoints", &endpoint)?;
        } else {
            config.insert_json5("listen/endpoints", "[]")?;
            config.insert_json5("connect/endpoints", &endpoint)?;
            config.insert_json5("connect/timeout_ms", "60000")?;
            config.insert_json5("connect/retry", "{ period_init_ms: 20, period_max_ms: 100 }")?;
        }
        Ok(ZenohPeer { session: zenoh::open(config).wait()?, index: options.index })
    }

    fn writer(&self, topic: &str, _readers: usize) -> PeerResult<ZenohWriter> {
        let publisher = self
            .session
            .declare_publisher(topic.to_owned())
            .congestion_control(CongestionControl::Block)
            .reliability(Reliability::Reliable)
            .wait()?;
        let token = self.session.liveliness().declare_token(format!("{topic}/writers/0")).wait()?;
        let (session, topic) = (self.session.clone(), topic.to_owned());
        Ok(ZenohWriter { session, publisher, topic, _token: token })
    }

    fn reader(&self, topic: &str, _readers: usize) -> PeerResult<ZenohReader> {
        let subscriber = self
            .session
            .declare_subscriber(topic.to_owned())
            .with(FifoChannel::new(CHANNEL))
            .wait()?;
        // Declared after the subscriber: who sees the token knows the subscriber.
        let key = format!("{topic}/readers/{}", self.index);
        let token = self.session.liveliness().declare_token(key).wait()?;
        let (session, topic) = (self.session.clone(), topic.to_owned());
        Ok(ZenohReader { session, subscriber, topic, _token: token })
    }
}

impl PeerWriter for ZenohWriter {
    fn matched(&mut self) -> PeerResult<usize> {
        alive(&self.session, &format!("{}/readers/*", self.topic))
    }

    fn send(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) -> PeerResult<()> {
        let mut bytes = vec![0; size];
        fill(&mut bytes);
        self.publisher.put(bytes).wait()
    }
}

impl PeerReader for ZenohReader {
    fn matched(&mut self) -> PeerResult<usize> {
        alive(&self.session, &format!("{}/writers/*", self.topic))
    }

    fn receive(&mut self, limit: Duration, mut each: impl FnMut(&[u8])) -> PeerResult<usize> {
        let Some(first) = self.subscriber.recv_timeout(limit)? else { return Ok(0) };
        each(&first.payload().to_bytes());
        let mut messages = 1;
        for sample in self.subscriber.drain() {
            each(&sample.payload().to_bytes());
            messages += 1;
        }
        Ok(messages)
    }
}

fn main() -> PeerResult<()> {
    peer_protocol::run::<ZenohPeer>()
}
