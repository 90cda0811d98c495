//! Requests of members that lack data which this member has.
//!
//! Owns: the order in which they are answered. Never does: answer one.

use alloc::collections::VecDeque;

use crate::ids::NodeId;

/// Maximum number of queued requests. Correct members never exceed it; further requests are
/// ignored.
const MOST_REQUESTS: usize = 1 << 16;

/// A member's request for the data of a subgroup. `W` says which part of it the member needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TransferRequest<W> {
    pub(crate) node: NodeId,
    pub(crate) key: u64,
    pub(crate) request: u64,
    pub(crate) wanted: W,
}

impl<W> TransferRequest<W> {
    /// Whether both are requests of one member for the same data.
    pub(crate) fn replaces(&self, earlier: &TransferRequest<W>) -> bool {
        (self.node, self.key) == (earlier.node, earlier.key)
    }
}

/// Queue of requests; see the [module](self).
#[derive(Debug)]
pub(crate) struct RequestQueue<W>(VecDeque<TransferRequest<W>>);

impl<W> Default for RequestQueue<W> {
    fn default() -> Self {
        RequestQueue(VecDeque::new())
    }
}

impl<W> RequestQueue<W> {
    /// Adds a request, in place of the member's earlier one for the same data.
    pub(crate) fn push(&mut self, request: TransferRequest<W>) {
        self.0.retain(|earlier| !request.replaces(earlier));
        if self.0.len() < MOST_REQUESTS {
            self.0.push_back(request);
        }
    }

    /// Removes the requests of members that are gone.
    pub(crate) fn retain(&mut self, is_present: impl Fn(NodeId) -> bool) {
        self.0.retain(|request| is_present(request.node));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out the first request that can be answered now, with its answer. `answer` returns
    /// `None` for a request that must wait.
    pub(crate) fn take_answered<A>(
        &mut self,
        mut answer: impl FnMut(&TransferRequest<W>) -> Option<A>,
    ) -> Option<(TransferRequest<W>, A)> {
        let mut answers = self.0.iter().enumerate();
        let (index, answer) =
            answers.find_map(|(index, request)| Some((index, answer(request)?)))?;
        self.0.remove(index).map(|request| (request, answer))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(node: u128, request: u64, wanted: u64) -> TransferRequest<u64> {
        TransferRequest { node: NodeId(node), key: 1, request, wanted }
    }

    #[test]
    fn requests_are_answered_in_order_once_the_holder_has_reached_their_place() {
        let mut queue = RequestQueue::default();
        [(1, 1, 9), (2, 1, 4), (3, 1, 3), (4, 1, 2)]
            .into_iter()
            .for_each(|(node, number, place)| queue.push(request(node, number, place)));
        // A repeated request goes to the end, and the request of a member that is gone ends.
        queue.push(request(2, 2, 4));
        queue.retain(|node| node != NodeId(4));
        let next = |queue: &mut RequestQueue<u64>, reached| {
            let answer = |it: &TransferRequest<u64>| (it.wanted <= reached).then_some(());
            queue.take_answered(answer).map(|(it, ())| (it.node.0, it.request))
        };
        assert_eq!([(); 3].map(|()| next(&mut queue, 4)), [Some((3, 1)), Some((2, 2)), None]);
        assert_eq!((next(&mut queue, 9), queue.is_empty()), (Some((1, 1)), true));
    }
}
