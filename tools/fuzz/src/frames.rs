//! Inputs that consist of messages of several nodes to one node, in sequence.
//!
//! ```text
//!   node: u8   length: u16, little endian   bytes   repeated; the last may be shorter than length
//! ```

/// Iterates over the messages: the node, and the bytes.
pub(crate) fn frames(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[who, low, high], rest) = input.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (said, rest) = rest.split_at(length);
        input = rest;
        Some((who, said))
    })
}

/// Returns a frame as bytes.
pub fn frame(who: u8, said: &[u8]) -> Vec<u8> {
    let length = u16::try_from(said.len()).unwrap_or(u16::MAX);
    [&[who][..], &length.to_le_bytes(), &said[..usize::from(length)]].concat()
}
