//! Messages on their way from one node to another, oldest first.
//!
//! Owns: the contents of channels, by number. Never does: lose anything.

use crate::intern::{Map, Table};

/// Contents of channels, by number.
#[derive(Default)]
pub struct Channels {
    all: Table<Vec<u32>>,
    with: Map<(u32, u32), u32>,
    /// Oldest message of each channel, and the channel without it.
    rests: Vec<Option<(u32, Option<u32>)>>,
}

impl Channels {
    /// Returns the number of a channel with these messages in it.
    pub fn number(&mut self, messages: Vec<u32>) -> u32 {
        let head = messages.first().copied();
        let number = self.all.number(messages);
        if number as usize == self.rests.len() {
            self.rests.push(head.map(|head| (head, None)));
        }
        number
    }

    /// Returns the oldest message of a channel.
    pub fn head(&self, channel: u32) -> Option<u32> {
        self.rests[channel as usize].map(|(head, _)| head)
    }

    /// Returns the channel without its oldest message.
    pub fn rest(&mut self, channel: u32) -> u32 {
        match self.rests[channel as usize] {
            None => channel,
            Some((_, Some(rest))) => rest,
            Some((head, None)) => {
                let rest = self.all.get(channel)[1..].to_vec();
                let rest = self.number(rest);
                self.rests[channel as usize] = Some((head, Some(rest)));
                rest
            }
        }
    }

    /// Returns the channel with one more message.
    pub fn with(&mut self, channel: u32, message: u32) -> u32 {
        if let Some(&known) = self.with.get(&(channel, message)) {
            return known;
        }
        let mut messages = self.all.get(channel).to_vec();
        messages.push(message);
        let number = self.number(messages);
        self.with.insert((channel, message), number);
        number
    }
}
