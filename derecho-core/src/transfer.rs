//! State transfer: how a member that lacks the data of a subgroup receives it from another member.
//! The data is a [store](crate::storage) of kept records, or an [object](crate::replicated).
//!
//! Owns: which members hold the data, whom a member asks and what it announces, and the requests
//! that wait for an answer. Never does: send anything, or know what the data is.
//!
//! ```text
//!   late joiner (requester)                    holder (request queue)
//!     Want(request, place) ──────────────────>   waits until the holder has reached the place
//!     takes in the chunks of this request <───   chunk, chunk, ..., last chunk
//!     Holds, to all members
//! ```
//! * **requester** (`requester`): a member that lacks the data asks one of the [`holders`] at a
//!   time, in rotation. While no member is known to have the data, the member announces that it
//!   lacks it, once for each vacancy. When it has the data, it announces this.
//! * **holder** (`request_queue`): answers requests in the order of their arrival, as soon as it
//!   has reached the place in the order that the requester needs. A later request of the same
//!   member for the same data replaces the earlier one.
//! * **chunks**: the data is one run of bytes, in chunks of at most `CHUNK` bytes that name the
//!   request. The requester accepts chunks of its pending request alone, from the member that it
//!   asked, in the order of the link; the last chunk is marked. A store's chunks are the blocks of
//!   a stream, because stores are large; an object's chunks are direct messages.
//! * **the holder is gone**, or no longer holds the data, or has answered that it lacks the data:
//!   the request is dropped, and the next holder is asked. A holder that began too late for the
//!   request is asked again in a later epoch.

pub mod holders;
pub(crate) mod request_queue;
pub(crate) mod requester;

/// Bytes of the data that are sent at a time.
pub(crate) const CHUNK: usize = 128 << 10;
