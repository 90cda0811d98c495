#![allow(missing_docs)]
use derecho_lives::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let kind = if a[1] == "local" { Kind::Local } else { Kind::Network };
    let (from, to): (u64, u64) = (a[2].parse().unwrap(), a[3].parse().unwrap());
    let nodes = a[4].parse().unwrap();
    let faults: Faults = a[5].parse().unwrap();
    let read = a.get(6).is_some();
    let mut sum = Account::default();
    let t = std::time::Instant::now();
    let mut bad = 0;
    for seed in from..to {
        let plan = Plan { nodes, faults, ..Plan::new(seed, kind) };
        let account = live(plan, read);
        for line in &account.journal {
            println!("{line}");
        }
        for v in account.violations.iter().take(2) {
            let v: String = v.chars().take(if read { 20000 } else { 400 }).collect();
            println!("{plan}: {v}");
        }
        bad += usize::from(!account.violations.is_empty());
        sum += &account;
    }
    sum.violations.clear();
    sum.journal.clear();
    println!("{sum:#?}\n{bad} bad, {:?}", t.elapsed());
}
