//! Encoding of the messages of a view change.
//!
//! Owns: the byte layout, and the checks on bytes of a peer. Never does: act on a message.

use alloc::vec::Vec;

use super::{Decision, RankSet, Report, View, ViewChangeMessage, ViewMember};
use crate::bytes::{ByteReader, Wire};
use crate::ids::{NodeId, Rank};
use crate::link::Generation;

impl Wire for RankSet {
    fn encode(&self, out: &mut Vec<u8>) {
        self.bits().encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        u64::decode(from).map(RankSet::from_bits)
    }
}

impl Wire for Rank {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        u16::decode(from).map(Rank).filter(|rank| rank.index() < RankSet::MOST)
    }
}

impl Wire for ViewMember {
    fn encode(&self, out: &mut Vec<u8>) {
        self.node.encode(out);
        self.slot.encode(out);
        self.votes.encode(out);
        self.weight.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(ViewMember {
            node: NodeId::decode(from)?,
            slot: u8::decode(from).filter(|slot| usize::from(*slot) < RankSet::MOST)?,
            votes: u16::decode(from)?,
            weight: u16::decode(from)?,
        })
    }
}

impl Wire for View {
    fn encode(&self, out: &mut Vec<u8>) {
        self.group.0.encode(out);
        self.number.encode(out);
        self.members.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let (group, number) = (Generation(u64::decode(from)?), u64::decode(from)?);
        let view = View { group, number, members: Vec::decode(from)? };
        let members = &view.members;
        let twice = members.iter().enumerate().any(|(index, one)| {
            members[..index].iter().any(|other| other.node == one.node || other.slot == one.slot)
        });
        (members.len() <= RankSet::MOST && !twice).then_some(view)
    }
}

impl<R: Report> Wire for Decision<R>
where
    R::Cut: Wire,
{
    fn encode(&self, out: &mut Vec<u8>) {
        self.next.encode(out);
        self.cut.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(Decision { next: View::decode(from)?, cut: R::Cut::decode(from)? })
    }
}

impl<R: Report + Wire> Wire for ViewChangeMessage<R>
where
    R::Cut: Wire,
{
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ViewChangeMessage::Join { node, weight } => {
                out.push(1);
                node.encode(out);
                weight.encode(out);
            }
            ViewChangeMessage::Wedged { view, suspects, leaves, report } => {
                out.push(2);
                view.encode(out);
                suspects.encode(out);
                leaves.encode(out);
                report.encode(out);
            }
            ViewChangeMessage::Suspects { view, suspects } => {
                out.push(3);
                view.encode(out);
                suspects.encode(out);
            }
            ViewChangeMessage::Accepted { view, ballot, decision } => {
                out.push(4);
                view.encode(out);
                ballot.encode(out);
                decision.encode(out);
            }
            ViewChangeMessage::Decided(decision) => {
                out.push(5);
                decision.encode(out);
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            1 => {
                ViewChangeMessage::Join { node: NodeId::decode(from)?, weight: u16::decode(from)? }
            }
            2 => ViewChangeMessage::Wedged {
                view: u64::decode(from)?,
                suspects: RankSet::decode(from)?,
                leaves: bool::decode(from)?,
                report: R::decode(from)?,
            },
            3 => ViewChangeMessage::Suspects {
                view: u64::decode(from)?,
                suspects: RankSet::decode(from)?,
            },
            4 => ViewChangeMessage::Accepted {
                view: u64::decode(from)?,
                ballot: Rank::decode(from)?,
                decision: Decision::decode(from)?,
            },
            5 => ViewChangeMessage::Decided(Decision::decode(from)?),
            _ => return None,
        })
    }
}
