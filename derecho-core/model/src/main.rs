//! Explores one setting that the command line describes, and reports its size.
//!
//! ```text
//! derecho-model network|local MEMBERS [joiners=N] [crashes=N] [mortal=BITS] [doubts=N] [cuts=N]
//!     [stops=N] [leaves=N] [doubters=BITS] [doubted=BITS] [leavers=BITS] [founders] [streams]
//!     [early] [most=STATES]
//! ```
//! The exit status is 1 if a property does not hold.

#[cfg(model)]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::read(&arguments) {
        Ok((setting, most)) => run(setting, most),
        Err(wrong) => {
            eprintln!("derecho-model: {wrong}; see the top of derecho-core/model/src/main.rs");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(model))]
fn main() {
    eprintln!("derecho-model: built without RUSTFLAGS=\"--cfg model\", so there is nothing to run");
    std::process::exit(2);
}

#[cfg(model)]
fn run(setting: derecho_model::Setting, most: usize) -> std::process::ExitCode {
    let start = std::time::Instant::now();
    let found = derecho_model::explore(setting, most);
    println!(
        "{} states, {} quiet, {} of single nodes, depth {}, {}, {:.1} s",
        found.states,
        found.quiet,
        found.of_nodes,
        found.depth,
        if found.complete { "all of them" } else { "NOT ALL" },
        start.elapsed().as_secs_f32(),
    );
    match found.failure {
        None => std::process::ExitCode::SUCCESS,
        Some(failure) => {
            println!("{failure:?}\n{:?}", failure.events);
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(model)]
mod options {
    use derecho_model::{Arbitration, Setting};

    /// Returns the setting and the maximum number of states.
    pub(crate) fn read(arguments: &[String]) -> Result<(Setting, usize), String> {
        let [arbitration, members, more @ ..] = arguments else {
            return Err("too few arguments".into());
        };
        let arbitration = match arbitration.as_str() {
            "network" => Arbitration::Network,
            "local" => Arbitration::Local,
            other => return Err(format!("{other} is neither network nor local")),
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text} is no number"));
        let mut setting = Setting::new(arbitration, number(members)? as usize);
        let mut most = 100_000_000;
        for option in more {
            let (name, value) = option.split_once('=').unwrap_or((option, "1"));
            let value = number(value)?;
            let small = u8::try_from(value).unwrap_or(u8::MAX);
            match name {
                "joiners" => setting.joiners = value as usize,
                "crashes" => setting.crashes = small,
                "mortal" => setting.mortal = small,
                "doubts" => setting.doubts = small,
                "doubters" => setting.doubters = small,
                "doubted" => setting.doubted = small,
                "leavers" => setting.leavers = small,
                "cuts" => setting.cuts = small,
                "stops" => setting.stops = small,
                "leaves" => setting.leaves = small,
                "founders" => setting.founders = true,
                "streams" => setting.streams = true,
                "early" => setting.early_return = true,
                "most" => most = value as usize,
                other => return Err(format!("{other} is no option")),
            }
        }
        if !(1..=4).contains(&setting.nodes()) {
            return Err("a model has 1 to 4 nodes".into());
        }
        Ok((setting, most))
    }
}
