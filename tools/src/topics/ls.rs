//! `squall ls`: the topics of a domain, with their writers and readers.

use std::time::{Duration, Instant};

use clap::Args;
use dds_api::topic::AnnouncedTopic;
use serde_json::{Value, json};

use super::Domain;
use crate::arguments;
use crate::outcome::{CommandAnswer, CommandResult, show};

/// Show the topics of a domain.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  squall ls --domain 7 --json\n\n\
    Joins the domain meanwhile. If no topic appears within --wait, no participant has a writer or reader.")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    domain: Domain,
    /// Seconds to wait for the first topic.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = arguments::duration)]
    wait: Duration,
}

/// Runs the command.
pub(crate) fn run(args: &LsArgs, json: bool) -> CommandResult {
    let participant = args.domain.join()?;
    let deadline = Instant::now() + args.wait;
    let mut topics = participant.announced_topics();
    while topics.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        topics = participant.announced_topics();
    }
    let value = json!({ "topics": topics.iter().map(fields).collect::<Vec<Value>>() });
    let text = match topics.is_empty() {
        true => "no topics".to_owned(),
        false => table(&topics),
    };
    show(json, &value, &text)?;
    Ok(CommandAnswer::Yes)
}

fn fields(topic: &AnnouncedTopic) -> Value {
    json!({
        "name": topic.name(),
        "type": topic.type_name(),
        "level": topic.level(),
        "sharded": topic.is_sharded(),
        "writers": topic.writers(),
        "readers": topic.readers(),
        "partitions": topic.partitions(),
        "type_known": topic.dynamic_type().is_some(),
    })
}

fn table(topics: &[AnnouncedTopic]) -> String {
    let mut rows =
        vec![["topic", "type", "level", "writers", "readers", "partitions"].map(String::from)];
    rows.extend(topics.iter().map(|topic| {
        [
            topic.name().to_owned(),
            topic.type_name().to_owned(),
            topic.level(),
            topic.writers().to_string(),
            topic.readers().to_string(),
            topic.partitions().join(" "),
        ]
    }));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
