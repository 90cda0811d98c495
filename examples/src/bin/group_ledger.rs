//! Accounts that outlive all processes: every member logs transfers, and a process that starts
//! again continues from its log.
//!
//! ```text
//! cargo run --release -p squall-examples --bin group_ledger
//! ```
//! Three tellers book transfers, wait until they are durable in all logs, and end without leaving
//! in order. Then an auditor starts, alone: it has all durable transfers, and reads earlier states
//! of the accounts. The logs are in a folder of their own, which is removed at the end. To keep it,
//! or to start the parts by hand, set `GROUP_LEDGER_LOGS=DIR`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use derecho::{ByteReader, Group, GroupBuilder, NodeId, OneShard, Replicated, Shard, Wire};
use squall_examples::{ExampleResult, part, play_all};

const LIMIT: Duration = Duration::from_secs(30);
const TELLERS: usize = 3;
const TRANSFERS: u64 = 100;
const OPENING: u64 = 1_000;

/// Balance of each account; all accounts begin with the same balance.
#[derive(Default)]
struct Accounts(BTreeMap<u64, u64>);

impl Accounts {
    fn sum(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Amount that moves from one account to another.
struct Transfer {
    from: u64,
    to: u64,
    amount: u64,
}

impl Wire for Transfer {
    fn encode(&self, out: &mut Vec<u8>) {
        [self.from, self.to, self.amount].iter().for_each(|number| number.encode(out));
    }

    fn decode(bytes: &mut ByteReader<'_>) -> Option<Transfer> {
        let mut number = || u64::decode(bytes);
        Some(Transfer { from: number()?, to: number()?, amount: number()? })
    }
}

impl Replicated for Accounts {
    type Update = Transfer;
    type Question = u64;
    type Reply = bool;

    fn apply(&mut self, _: NodeId, transfer: Transfer) -> bool {
        let Transfer { from, to, amount } = transfer;
        let there = self.0.entry(from).or_insert(OPENING);
        let Some(left) = there.checked_sub(amount) else { return false };
        *there = left;
        *self.0.entry(to).or_insert(OPENING) += amount;
        true
    }

    fn answer(&self, _: NodeId, account: u64) -> bool {
        self.0.contains_key(&account)
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    fn restored(bytes: &[u8]) -> Option<Accounts> {
        Wire::from_bytes(bytes).map(Accounts)
    }
}

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => {
            let logs = logs(std::process::id());
            std::fs::create_dir_all(&logs)?;
            play_all(["teller"; TELLERS])?;
            play_all(["auditor"])?;
            if std::env::var_os("GROUP_LEDGER_LOGS").is_none() {
                std::fs::remove_dir_all(logs)?;
            }
            Ok(())
        }
        Some("teller") => book(),
        Some("auditor") => audit(),
        Some(other) => Err(format!("there is no part `{other}`: teller or auditor").into()),
    }
}

/// Returns the folder of the logs for the run that this process has started.
fn logs(run: u32) -> PathBuf {
    let chosen = std::env::var_os("GROUP_LEDGER_LOGS").map(PathBuf::from);
    chosen.unwrap_or_else(|| std::env::temp_dir().join(format!("group-ledger-{run}")))
}

fn join() -> Result<(Group, Shard<Accounts>), Box<dyn std::error::Error>> {
    let group = GroupBuilder::new("group-ledger")
        .logs(logs(std::os::unix::process::parent_id()))
        .logged::<Accounts>("accounts", OneShard { least: 1 })
        .join(LIMIT)?;
    let accounts = group.shard::<Accounts>("accounts", 0)?;
    // If a newer log is in another folder, the error names it.
    accounts.wait_ready(LIMIT)?;
    Ok((group, accounts))
}

/// Waits until all tellers keep a log, or one has begun. Then each log has all transfers, whichever
/// log the auditor starts from.
fn meet(accounts: &Shard<Accounts>) -> ExampleResult {
    let end = Instant::now() + LIMIT;
    while accounts.log_status()?.logs < TELLERS && accounts.version()? == 0 {
        if Instant::now() > end {
            return Err(format!("not all of {TELLERS} tellers have come within {LIMIT:?}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn book() -> ExampleResult {
    let (_group, accounts) = join()?;
    meet(&accounts)?;
    for number in 0..TRANSFERS {
        let (from, to) = (number % 5, (number + 1 + number % 3) % 5);
        accounts.send(&Transfer { from, to, amount: number % 7 }, LIMIT)?;
    }
    let version = accounts.sync(LIMIT)?;
    println!("what this teller has booked is durable with version {version}");
    // All tellers end here, and none of them leaves in order.
    Ok(())
}

fn audit() -> ExampleResult {
    let (group, accounts) = join()?;
    let (version, sum) = (accounts.version()?, accounts.read(Accounts::sum)?);
    println!("the accounts are back in version {version}, and hold {sum} in all");
    let middle = accounts.get(version / 2, LIMIT)?;
    println!("in version {} they held {} in all", version / 2, middle.sum());
    group.leave(LIMIT)?;
    Ok(())
}
