//! `squall sim`: the product's own protocol code in virtual time.

mod lives;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use derecho_figures::{Costs, Figure, FigureError, Options};
use serde_json::Value;

use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Name that stands for all figures.
const ALL: &str = "all";

/// Simulation to run.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  \
    squall sim figure sst-8 --quick\n  \
    squall sim run --seeds 0..1000"
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Figure(FigureArgs),
    Run(lives::RunArgs),
    Replay(lives::ReplayArgs),
}

/// Repeat an experiment of the papers, with their claims beside the results.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
struct FigureArgs {
    /// Name of the figure, or `all`.
    name: String,
    /// Fewer points and rounds: seconds instead of minutes.
    #[arg(long)]
    quick: bool,
    /// Write each figure as CSV, SVG and JSON into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prices for the multicast figures.
    #[arg(long, value_enum, default_value_t = Prices::Paper)]
    costs: Prices,
    /// A TOML file with prices of the network, instead of the papers'.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The committed files of prices.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Prices {
    /// Prices measured by the papers.
    Paper,
    /// Prices measured for this product, on the papers' network.
    Ours,
}

fn after_help() -> String {
    let mut text =
        "Example:\n  squall sim figure sst-8 --quick --out figures\n\nFigures:".to_owned();
    for (name, shows) in derecho_figures::list() {
        text += &format!("\n  {name:<12} {shows}");
    }
    text
}

/// Runs a command.
pub(crate) fn run(args: &SimArgs, json: bool) -> CommandResult {
    match &args.command {
        Command::Figure(args) => figure(args, json),
        Command::Run(args) => lives::run(args, json),
        Command::Replay(args) => lives::replay(args, json),
    }
}

fn figure(args: &FigureArgs, json: bool) -> CommandResult {
    let names: Vec<&str> = derecho_figures::list().map(|(name, _)| name).collect();
    let wanted = if args.name == ALL { names.clone() } else { vec![args.name.as_str()] };
    let prices = match &args.prices {
        Some(file) => {
            fs::read_to_string(file).map_err(|error| Failure::unreadable(file, &error))?
        }
        None => String::new(),
    };
    let costs = match args.costs {
        Prices::Paper => Costs::Paper,
        Prices::Ours => Costs::Ours,
    };
    let options = Options { quick: args.quick, seed: args.seed, costs, prices };
    let (mut objects, mut text) = (Vec::new(), String::new());
    for name in wanted {
        progress(format_args!("{name} ..."));
        let figure = derecho_figures::run(name, &options).map_err(|error| match error {
            FigureError::Unknown(_) => {
                Failure::Usage(format!("{error}; there are {}", names.join(", ")))
            }
            error => Failure::new(error.to_string()),
        })?;
        if let Some(folder) = &args.out {
            save(&figure, folder)?;
        }
        objects.push(object(&figure)?);
        text += &figure.to_table();
        text.push('\n');
    }
    let report = if args.name == ALL {
        serde_json::json!({ "figures": objects })
    } else {
        objects.pop().unwrap_or_default()
    };
    show(json, &report, &text)?;
    Ok(CommandAnswer::Yes)
}

fn object(figure: &Figure) -> Result<Value, Failure> {
    serde_json::to_value(figure).map_err(|error| Failure::new(error.to_string()))
}

/// Writes a figure in all its forms.
fn save(figure: &Figure, folder: &Path) -> Result<(), Failure> {
    let fail = |path: &Path, error: std::io::Error| {
        Failure::new(format!("{} cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| fail(folder, error))?;
    let picture = figure.to_svg().map_err(|error| Failure::new(error.to_string()))?;
    let forms = [("csv", figure.to_csv()), ("svg", picture), ("json", figure.to_json())];
    for (ending, content) in forms {
        let path = folder.join(format!("{}.{ending}", figure.name));
        fs::write(&path, content).map_err(|error| fail(&path, error))?;
    }
    Ok(())
}
