//! Broadcast in which a master sends message k when all nodes have k - 1 (SST paper, introduction).
//!
//! Owns: one message in the master's row and each node's count of messages received. Never does:
//! hold a second message back; messages not sent yet wait in the caller's iterator.
//!
//! ```text
//!   row 0 (the master)   payload, then its guard `sent`
//!   row i                `received`: the number of the last message taken
//!
//!   master:  when  for all live i: received[i] = sent     then  payload, sent + 1, pushed in order
//!   others:  when  sent[0] > received[me]                 then  take it, received[me] = sent[0]
//! ```
//! The payload is written again only when all nodes have taken it, so it is never read torn. The
//! program needs guards, so it runs with SST-writes only.

use derecho_core::ids::Rank;
use derecho_core::row;
use derecho_core::sst::{FireCondition, Scope};

/// Number of words of a message.
pub const PAYLOAD: usize = 4;

/// A message.
pub type Payload = [u64; PAYLOAD];

/// Rank of the master.
pub const MASTER: Rank = Rank(0);

row! {
    /// A message on its way, and the count of messages received.
    pub struct Message {
        /// The message; only the master's is read.
        pub payload: Payload,
        /// Number of messages sent by the master; guards `payload`.
        pub sent: u64,
        /// Number of the last message that this node has taken.
        pub received: u64,
    }
}

impl Message {
    /// Initial row of every node.
    pub const NONE: Message = Message { payload: [0; PAYLOAD], sent: 0, received: 0 };
}

/// Sends `messages` from the master, one after the other. Every node, including the master, calls
/// `delivered` for each with its number from 1. The other nodes' `messages` are not used.
pub fn setup<M, D>(
    messages: M,
    mut delivered: D,
) -> impl FnOnce(&mut Scope<'_, Message>) + Send + 'static
where
    M: Iterator<Item = Payload> + Send + 'static,
    D: FnMut(u64, Payload) + Send + 'static,
{
    move |scope| {
        if scope.me() == MASTER {
            send(scope, messages, delivered);
            return;
        }
        scope.when(
            FireCondition::Always,
            |table| table.get(MASTER, Message::sent) > table.get(table.me(), Message::received),
            move |scope| {
                let sent = scope.get(MASTER, Message::sent);
                delivered(sent, scope.get(MASTER, Message::payload));
                scope.publish(Message::received, sent);
            },
        );
    }
}

/// Sends the next message, if there is one, and continues when all nodes have it.
fn send<M, D>(scope: &mut Scope<'_, Message>, mut messages: M, mut delivered: D)
where
    M: Iterator<Item = Payload> + Send + 'static,
    D: FnMut(u64, Payload) + Send + 'static,
{
    let Some(payload) = messages.next() else { return };
    let number = scope.get(MASTER, Message::sent) + 1;
    scope.publish(Message::payload, payload);
    scope.publish(Message::sent, number);
    delivered(number, payload);
    scope.publish(Message::received, number);
    let mut rest = Some((messages, delivered));
    scope.when(
        FireCondition::Once,
        move |table| table.live().all(|row| row.get(Message::received) >= number),
        move |scope| {
            if let Some((messages, delivered)) = rest.take() {
                send(scope, messages, delivered);
            }
        },
    );
}
