//! Two operators give commands, three displays execute them: all in the same order.
//!
//! ```text
//! cargo run --release -p squall-examples --bin commands                      # all five processes
//! cargo run --release -p squall-examples --bin commands -- --part display    # one of them
//! ```
//! Each command changes a setting in a way that depends on the settings before it, so displays that
//! saw another order would end with other settings. An atomic topic rules this out.

use dds_api::prelude::*;
use squall_examples::{ExampleResult, part, play_all};

/// Command of an operator.
#[derive(DdsType, Clone, Copy, Debug, Default)]
struct Command {
    operator: u32,
    factor: u32,
    offset: u32,
}

/// Number of commands of each operator.
const COMMANDS: u32 = 500;

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["display", "display", "display", "operator", "operator"]),
        Some("operator") => operate(),
        Some("display") => display(),
        Some(other) => Err(format!("there is no part `{other}`: operator or display").into()),
    }
}

/// Creates the topic: all displays receive the commands of all operators in one order.
fn commands(participant: &DomainParticipant) -> DdsResult<Topic<Command>> {
    participant.topic::<Command>("Commands").atomic().create()
}

fn operate() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let writer = participant.writer(&commands(&participant)?).create()?;
    writer.wait_for_readers(3, Timeout::secs(30))?;

    let operator = std::process::id();
    for step in 0..COMMANDS {
        writer.write(&Command { operator, factor: 2 * step + 1, offset: operator ^ step })?;
    }
    writer.wait_for_acknowledgments(Timeout::secs(30))?;
    println!("an operator gave {COMMANDS} commands, and all displays have executed them");
    Ok(())
}

fn display() -> ExampleResult {
    let participant = DomainParticipant::new(0)?;
    let reader = participant.reader(&commands(&participant)?).create()?;

    let (mut setting, mut executed) = (1_u32, 0);
    while executed < 2 * COMMANDS {
        let Some(command) = reader.take_next_data(Timeout::secs(30))? else {
            return Err(format!("only {executed} commands came").into());
        };
        setting = setting.wrapping_mul(command.factor).wrapping_add(command.offset);
        executed += 1;
    }
    println!("a display executed {executed} commands: setting {setting:08x}");
    Ok(())
}
