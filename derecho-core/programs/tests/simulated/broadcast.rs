//! Every message reaches all nodes completely and in order, and none is overtaken.

use std::sync::{Arc, Mutex};

use derecho_core::sst::Strategy;
use sst_programs::broadcast::{self, Message, Payload};

use crate::group::Group;

fn payload(number: u64) -> Payload {
    [number, number * 7, !number, number ^ 0xabcd]
}

#[test]
fn all_nodes_receive_each_message_complete_and_in_order() {
    for seed in 0..25 {
        let nodes = 2 + (seed % 5) as usize;
        let delivered = Arc::new(Mutex::new(vec![Vec::new(); nodes]));
        let log = delivered.clone();
        let mut group = Group::new(seed, nodes, Strategy::Writes, Message::NONE, move |rank| {
            let log = log.clone();
            Box::new(broadcast::setup((1..=20).map(payload), move |number, payload| {
                log.lock().unwrap()[rank.index()].push((number, payload));
            }))
        });
        group.run_until(&format!("seed {seed}: 20 messages"), |tables| {
            tables.iter().all(|table| table.rows().all(|row| row.get(Message::received) == 20))
        });
        let expected: Vec<_> = (1..=20).map(|number| (number, payload(number))).collect();
        for (rank, log) in delivered.lock().unwrap().iter().enumerate() {
            assert_eq!(*log, expected, "seed {seed}, rank {rank}");
        }
    }
}

#[test]
fn failed_receiver_does_not_block_other_receivers() {
    for seed in 0..10 {
        let mut group = Group::new(seed, 4, Strategy::Writes, Message::NONE, |_| {
            Box::new(broadcast::setup((1..=30).map(payload), |_, _| {}))
        });
        group.run_for(20_000);
        group.crash(2);
        group.run_until(&format!("seed {seed}: 30 messages"), |tables| {
            [0, 1, 3].iter().all(|&rank| {
                let table: &derecho_core::sst::Table<Message> = tables[rank];
                table.get(table.me(), Message::received) == 30
            })
        });
    }
}
