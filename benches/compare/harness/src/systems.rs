//! The systems: how each is installed and built, its settings, and its guarantees.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Program of a system's peer, with the arguments before and after those of the protocol.
#[derive(Clone, Debug)]
pub(crate) struct PeerCommand {
    pub(crate) program: PathBuf,
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
}

/// Way to get the peer of a system.
#[derive(Clone, Copy, Debug)]
enum PeerRecipe {
    /// The command `squall`.
    Squall,
    /// A crate of this workspace, and the crate whose version counts.
    Crate { peer: &'static str, library: &'static str },
    /// Cyclone DDS: C, and types made by `idlc`.
    Cyclone,
    /// Fast DDS: C++.
    FastDds,
}

/// A system in one variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedSystem {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Name in tables.
    pub(crate) label: &'static str,
    recipe: PeerRecipe,
    /// Arguments of this variant.
    arguments: &'static [&'static str],
    pub(crate) transport: &'static str,
    pub(crate) loss: &'static str,
    pub(crate) order: &'static str,
    pub(crate) crash: &'static str,
    /// Parts of the names of shared memory that a process may leave behind.
    pub(crate) leaves: &'static [&'static str],
}

/// Name of the system that all others are compared with first.
pub(crate) const ATOMIC: &str = "squall-atomic";
/// Name of the system that all others are compared with, too.
pub(crate) const UNORDERED: &str = "squall-unordered";

const EACH_WRITER: &str = "of each writer";
const NO_AGREEMENT: &str = "none: each reader has what reached it";
const RTPS_LOSS: &str = "none while the writer lives: it repeats what a reader misses, and waits";

/// All systems.
pub(crate) const SYSTEMS: [ComparedSystem; 10] = [
    ComparedSystem {
        name: ATOMIC,
        label: "Squall DDS, atomic",
        recipe: PeerRecipe::Squall,
        arguments: &["--level", "atomic"],
        transport: "shared memory",
        loss: "none; the writer waits",
        order: "one order of all writers at all readers",
        crash: "all surviving readers deliver the same samples",
        leaves: &[],
    },
    ComparedSystem {
        name: UNORDERED,
        label: "Squall DDS, unordered",
        recipe: PeerRecipe::Squall,
        arguments: &["--level", "unordered"],
        transport: "shared memory",
        loss: "none; the writer waits",
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
    ComparedSystem {
        name: "iceoryx2-poll",
        label: "iceoryx2, polling",
        recipe: PeerRecipe::Crate { peer: "peer-iceoryx2", library: "iceoryx2" },
        arguments: &[],
        transport: "shared memory",
        loss: "none without safe overflow; the publisher retries until there is room",
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
    ComparedSystem {
        name: "iceoryx2-events",
        label: "iceoryx2, events",
        recipe: PeerRecipe::Crate { peer: "peer-iceoryx2", library: "iceoryx2" },
        arguments: &["--variant", "events"],
        transport: "shared memory, and an event for each message",
        loss: "none without safe overflow; the publisher retries until there is room",
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
    ComparedSystem {
        name: "zenoh",
        label: "zenoh",
        recipe: PeerRecipe::Crate { peer: "peer-zenoh", library: "zenoh" },
        arguments: &[],
        transport: "a UNIX socket from peer to peer",
        loss: "none while the sessions last, with congestion control *block*",
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[".zenoh"],
    },
    ComparedSystem {
        name: "cyclone",
        label: "Cyclone DDS",
        recipe: PeerRecipe::Cyclone,
        arguments: &[],
        transport: "UDP over the loopback interface",
        loss: RTPS_LOSS,
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
    ComparedSystem {
        name: "fastdds-shm",
        label: "Fast DDS, shared memory",
        recipe: PeerRecipe::FastDds,
        arguments: &["--variant", "shm"],
        transport: "shared memory segments",
        loss: RTPS_LOSS,
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &["fastrtps_", "fast_datasharing_"],
    },
    ComparedSystem {
        name: "fastdds-sharing",
        label: "Fast DDS, data sharing",
        recipe: PeerRecipe::FastDds,
        arguments: &["--variant", "sharing"],
        transport: "the writer's history in shared memory",
        loss: RTPS_LOSS,
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &["fastrtps_", "fast_datasharing_"],
    },
    ComparedSystem {
        name: "dust_dds",
        label: "dust_dds",
        recipe: PeerRecipe::Crate { peer: "peer-dust-dds", library: "dust_dds" },
        arguments: &[],
        transport: "UDP",
        loss: RTPS_LOSS,
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
    ComparedSystem {
        name: "rustdds",
        label: "RustDDS",
        recipe: PeerRecipe::Crate { peer: "peer-rustdds", library: "rustdds" },
        arguments: &[],
        transport: "UDP",
        loss: "none on the way, but a reader whose history is full drops its oldest samples",
        order: EACH_WRITER,
        crash: NO_AGREEMENT,
        leaves: &[],
    },
];

/// Folders and permissions of building.
#[derive(Clone, Debug)]
pub(crate) struct BuildSettings {
    /// Folder of this workspace.
    pub(crate) workspace: PathBuf,
    /// Folder of compiled files.
    pub(crate) target: PathBuf,
    /// The command `squall`; built from the main workspace if it is not given.
    pub(crate) squall: Option<PathBuf>,
    /// Whether packages of the distribution may be installed.
    pub(crate) installs: bool,
}

/// A system that is ready to be measured.
#[derive(Clone, Debug)]
pub(crate) struct BuiltSystem {
    pub(crate) system: ComparedSystem,
    pub(crate) version: String,
    pub(crate) command: PeerCommand,
}

impl BuildSettings {
    /// Returns the command `squall`, which is built if it was not given.
    pub(crate) fn squall(&self) -> Result<PathBuf, String> {
        if let Some(path) = &self.squall {
            return Ok(path.clone());
        }
        let root = self.workspace.join("../..");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--locked", "-p", "squall", "--manifest-path"]);
        cargo.arg(root.join("Cargo.toml"));
        let target = self.target.join("squall");
        must_run(cargo.arg("--target-dir").arg(&target))?;
        Ok(target.join("release/squall"))
    }

    /// Installs and builds the peer of a system. `squall` is the product and its commit.
    pub(crate) fn build(
        &self,
        system: ComparedSystem,
        squall: &Path,
        commit: &str,
    ) -> Result<BuiltSystem, String> {
        let mut before = Vec::new();
        let (program, version) = match system.recipe {
            PeerRecipe::Squall => {
                before = ["perf", "peer"].map(str::to_owned).to_vec();
                (squall.to_owned(), commit.to_owned())
            }
            PeerRecipe::Crate { peer, library } => {
                let mut cargo = Command::new("cargo");
                cargo.args(["build", "--release", "--locked", "-p", peer, "--manifest-path"]);
                cargo.arg(self.workspace.join("Cargo.toml"));
                must_run(cargo.arg("--target-dir").arg(&self.target))?;
                let lock = std::fs::read_to_string(self.workspace.join("Cargo.lock"));
                let version = locked_version(&lock.unwrap_or_default(), library);
                (self.target.join("release").join(peer), version)
            }
            PeerRecipe::Cyclone => {
                self.install(&["cyclonedds-dev", "cyclonedds-tools"])?;
                (self.build_cyclone()?, package_version("cyclonedds-dev"))
            }
            PeerRecipe::FastDds => {
                self.install(&["libfastrtps-dev"])?;
                (self.build_fastdds()?, package_version("libfastrtps-dev"))
            }
        };
        let after = system.arguments.iter().map(|&it| it.to_owned()).collect();
        Ok(BuiltSystem { system, version, command: PeerCommand { program, before, after } })
    }

    /// Installs packages of Debian that are missing.
    fn install(&self, packages: &[&str]) -> Result<(), String> {
        if packages.iter().all(|package| !package_version(package).is_empty()) {
            return Ok(());
        }
        let names = packages.join(" ");
        if !self.installs {
            return Err(format!("the packages {names} are not installed"));
        }
        let advice =
            |error| format!("the packages {names} cannot be installed (as root?): {error}");
        let mut install = Command::new("apt-get");
        install.args(["install", "-qy", "--no-install-recommends"]).args(packages);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        if must_run(&mut install).is_ok() {
            return Ok(());
        }
        // The lists of packages may be missing or old.
        must_run(Command::new("apt-get").args(["update", "-q"])).map_err(advice)?;
        must_run(&mut install).map_err(advice)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.target.join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        Ok(folder)
    }

    fn build_cyclone(&self) -> Result<PathBuf, String> {
        let (folder, peers) = (self.folder("cyclone")?, self.workspace.join("peers"));
        let mut idlc = Command::new("idlc");
        must_run(idlc.args(["-l", "c"]).arg(peers.join("types.idl")).current_dir(&folder))?;
        let program = folder.join("peer-cyclone");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-I"]).arg(&folder).arg("-o").arg(&program);
        cc.arg(folder.join("types.c")).arg(peers.join("cyclone/peer.c"));
        must_run(cc.args(["-lddsc", "-lpthread"]))?;
        Ok(program)
    }

    fn build_fastdds(&self) -> Result<PathBuf, String> {
        let program = self.folder("fastdds")?.join("peer-fastdds");
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-o"]).arg(&program);
        compiler.arg(self.workspace.join("peers/fastdds/peer.cpp"));
        must_run(compiler.args(["-lfastrtps", "-lfastcdr", "-lpthread"]))?;
        Ok(program)
    }
}

/// Runs a command that has to succeed. The error has the last lines that it printed.
fn must_run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} cannot run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    Err(format!("{program} failed: {last}"))
}

/// Version of an installed package of Debian; empty if there is none.
fn package_version(package: &str) -> String {
    let query = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status} ${Version}"])
        .arg(package)
        .output();
    let text = query.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.strip_prefix("installed ").unwrap_or_default().trim().to_owned()
}

/// Version of a crate in the text of a lock file; empty if it has none.
fn locked_version(lock: &str, name: &str) -> String {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    version.map(|(version, _)| version.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_a_crate_is_found_in_the_lock_file() {
        let lock = "[[package]]\nname = \"zenoh-core\"\nversion = \"1.0.1\"\n\n[[package]]\n\
                    name = \"zenoh\"\nversion = \"1.10.2\"\nsource = \"x\"\n";
        assert_eq!(locked_version(lock, "zenoh"), "1.10.2");
        assert_eq!(locked_version(lock, "other"), "");
    }

    #[test]
    fn names_of_systems_differ() {
        let names: std::collections::BTreeSet<_> = SYSTEMS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), SYSTEMS.len());
        assert_eq!([SYSTEMS[0].name, SYSTEMS[1].name], [ATOMIC, UNORDERED]);
    }
}
