//! `squall doctor`: tests of the capabilities of this machine, and advice.
//!
//! Owns: the checks. Each check does what the product does, on this machine and as this user; none
//! of them guesses. Never does: change anything.

use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use clap::Args;
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};
use rustix::time::{ClockId, clock_getres, clock_gettime};
use serde::Serialize;
use serde_json::json;

use crate::outcome::{CommandAnswer, CommandResult, show};

/// Memory needed by a few participants.
const ENOUGH_MEMORY_MIB: u64 = 256;
/// Minimum number of cores; with fewer, communicating processes take turns.
const ENOUGH_CORES: usize = 2;
/// Maximum resolution of the clock; a coarser clock makes latencies meaningless.
const FINE_CLOCK_NS: i64 = 1000;

/// Check what this machine offers.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Folder where participants meet; SQUALL_RUNTIME_DIR, or /tmp/squall-UID, by default.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// Result of a check.
#[derive(Debug, Serialize)]
struct CheckResult {
    name: &'static str,
    ok: bool,
    /// Whether the product cannot work without it.
    needed: bool,
    found: String,
    /// Recommended change; empty if none.
    advice: String,
}

impl CheckResult {
    fn good(name: &'static str, found: impl Display) -> CheckResult {
        CheckResult {
            name,
            ok: true,
            needed: true,
            found: found.to_string(),
            advice: String::new(),
        }
    }

    fn bad(name: &'static str, found: impl Display, advice: &str) -> CheckResult {
        CheckResult {
            name,
            ok: false,
            needed: true,
            found: found.to_string(),
            advice: advice.into(),
        }
    }

    fn of(name: &'static str, ok: bool, found: impl Display, advice: &str) -> CheckResult {
        if ok { CheckResult::good(name, found) } else { CheckResult::bad(name, found, advice) }
    }

    /// Marks the check as recommended: the product works without it.
    fn wish(self) -> CheckResult {
        CheckResult { needed: false, ..self }
    }
}

/// Runs the checks.
pub(crate) fn run(args: &DoctorArgs, json: bool) -> CommandResult {
    let checks = [
        memory(),
        locked_memory(),
        cores(),
        runtime_dir(args.runtime_dir.as_deref()),
        sealing(),
        peer_pidfd(),
        wake_ups(),
        clock(),
        huge_pages(),
    ];
    let sound = checks.iter().all(|check| check.ok || !check.needed);
    let mut text = String::new();
    for check in &checks {
        let verdict = match (check.ok, check.needed) {
            (true, _) => "ok",
            (false, true) => "BAD",
            (false, false) => "hint",
        };
        text += &format!("{verdict:>4}  {:<14} {}\n", check.name, check.found);
        if !check.advice.is_empty() {
            text += &format!("      {:<14} -> {}\n", "", check.advice);
        }
    }
    text += if sound { "All requirements are met." } else { "A requirement is not met." };
    show(json, &json!({ "ok": sound, "checks": checks }), &text)?;
    Ok(if sound { CommandAnswer::Yes } else { CommandAnswer::No })
}

fn memory() -> CheckResult {
    let name = "memory";
    let advice = "free some memory, or limit what participants take by SQUALL_MEMORY_LIMIT";
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = info
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok()
        })
        .map(|kib: u64| kib / 1024);
    let limit = cgroup_limit();
    match available {
        Some(mib) => {
            let usable = limit.map_or(mib, |limit| limit.min(mib));
            let of = limit.map_or(String::new(), |limit| format!(" (limited to {limit} MiB)"));
            CheckResult::of(
                name,
                usable >= ENOUGH_MEMORY_MIB,
                format!("{mib} MiB available{of}"),
                advice,
            )
        }
        None => CheckResult::bad(name, "MemAvailable not found in /proc/meminfo", "mount /proc"),
    }
}

/// Returns the MiB that this process's control group may use, if limited.
fn cgroup_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let limit = fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?;
    limit.trim().parse::<u64>().ok().map(|bytes| bytes >> 20)
}

fn locked_memory() -> CheckResult {
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or("no limit".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    let advice = "raise it with `ulimit -l` if samples must never be paged out";
    let enough = limit.is_none_or(|bytes| bytes >= 64 << 20);
    CheckResult::of("memlock", enough, found, advice).wish()
}

fn cores() -> CheckResult {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let advice = "with one core, processes that talk to each other take turns: give it two";
    CheckResult::of("cores", cores >= ENOUGH_CORES, cores, advice).wish()
}

/// Joins a domain of its own and leaves it.
fn runtime_dir(chosen: Option<&Path>) -> CheckResult {
    let name = "runtime dir";
    let mut config = ShmConfig::new(format!("doctor-{}", getpid().as_raw_nonzero()));
    if let Some(chosen) = chosen {
        config.runtime_dir = Some(chosen.to_owned());
    }
    let folder = config.runtime_folder();
    match folder.and_then(|folder| ShmLink::join(config).map(|link| (folder, link))) {
        Ok((folder, link)) => {
            drop(link);
            let folder = folder.display();
            CheckResult::good(name, format!("{folder}: a participant can join there"))
        }
        Err(error) => {
            CheckResult::bad(name, error, "set SQUALL_RUNTIME_DIR to a folder of your own")
        }
    }
}

/// Checks that a sealed memory refuses new writable mappings, while the owner's mapping
/// stays writable.
fn sealing() -> CheckResult {
    let name = "memfd sealing";
    let advice = "use a kernel from 5.1 on that allows memfd_create and sealing";
    match try_sealing() {
        Ok(true) => CheckResult::good(name, "sealed memory refuses new writers and keeps its size"),
        Ok(false) => {
            CheckResult::bad(name, "sealed memory can still be written or resized", advice)
        }
        Err(errno) => CheckResult::bad(name, format!("refused: {errno}"), advice),
    }
}

fn try_sealing() -> Result<bool, Errno> {
    const BYTES: usize = 4096;
    let memory = memfd_create("squall-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, BYTES as u64)?;
    let own = map(&memory, ProtFlags::READ | ProtFlags::WRITE, BYTES)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals)?;
    let writer_refused = match map(&memory, ProtFlags::READ | ProtFlags::WRITE, BYTES) {
        Ok(second) => {
            unmap(second, BYTES);
            false
        }
        Err(errno) => errno == Errno::PERM,
    };
    let reader_allowed = match map(&memory, ProtFlags::READ, BYTES) {
        Ok(reader) => {
            unmap(reader, BYTES);
            true
        }
        Err(_) => false,
    };
    let size_kept = ftruncate(&memory, 0) == Err(Errno::PERM);
    unmap(own, BYTES);
    Ok(writer_refused && reader_allowed && size_kept)
}

fn map(memory: &OwnedFd, access: ProtFlags, bytes: usize) -> Result<*mut u8, Errno> {
    // SAFETY: a new mapping at an address chosen by the kernel touches no existing memory.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, memory, 0)? };
    Ok(base.cast())
}

fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: the mapping comes from `map`, with these bytes, and no reference to it exists.
    let _ = unsafe { munmap(base.cast(), bytes) };
}

/// Checks that the kernel reports the death of the process at the other end of a socket.
fn peer_pidfd() -> CheckResult {
    let name = "pidfd";
    let advice = "use Linux 6.5 or later, which reports the death of a process without any doubt";
    let Ok((socket, _other)) = std::os::unix::net::UnixStream::pair() else {
        return CheckResult::bad(name, "no socket pair can be made", "allow UNIX sockets");
    };
    let death = peer_of(&socket.into()).map(|pidfd| is_readable(&pidfd));
    match death {
        Ok(false) => {
            CheckResult::good(name, "SO_PEERPIDFD works, and a living process is not dead")
        }
        Ok(true) => CheckResult::bad(name, "a living process is reported as dead", advice),
        Err(why) => match pidfd_open(getpid(), PidfdFlags::empty()) {
            Ok(_) => {
                CheckResult::bad(name, format!("no SO_PEERPIDFD ({why}); pidfd_open works"), advice)
                    .wish()
            }
            Err(errno) => CheckResult::bad(name, format!("no pidfd: {errno}"), advice),
        },
    }
}

/// Returns the process at the other end.
fn peer_of(socket: &OwnedFd) -> Result<OwnedFd, std::io::Error> {
    use std::os::fd::AsRawFd;
    // Constants of the generic socket interface.
    const SOL_SOCKET: i32 = 1;
    const SO_PEERPIDFD: i32 = 77;
    unsafe extern "C" {
        fn getsockopt(
            socket: i32,
            level: i32,
            name: i32,
            value: *mut std::ffi::c_void,
            length: *mut u32,
        ) -> i32;
    }
    let (mut value, mut length) = (-1i32, size_of::<i32>() as u32);
    // SAFETY: `value` is writable for `length` bytes, and the socket is open while it is borrowed.
    let result = unsafe {
        let value = (&raw mut value).cast();
        getsockopt(socket.as_raw_fd(), SOL_SOCKET, SO_PEERPIDFD, value, &raw mut length)
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this call, and no other owner exists.
    Ok(unsafe { OwnedFd::from_raw_fd(value) })
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let mut set = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
}

/// Rings a bell and checks that the ring arrives.
fn wake_ups() -> CheckResult {
    let name = "eventfd";
    let advice = "allow eventfd: sleeping participants are woken by it";
    let bell = match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
        Ok(bell) => bell,
        Err(errno) => return CheckResult::bad(name, format!("refused: {errno}"), advice),
    };
    let quiet = !is_readable(&bell);
    let rung = rustix::io::write(&bell, &1u64.to_ne_bytes()).is_ok();
    let heard = is_readable(&bell);
    let mut value = [0; 8];
    let taken = fs::File::from(bell).read_exact(&mut value).is_ok();
    let works = quiet && rung && heard && taken && u64::from_ne_bytes(value) == 1;
    let found = if works { "a ring arrives" } else { "a ring does not arrive" };
    CheckResult::of(name, works, found, advice)
}

fn clock() -> CheckResult {
    let resolution = clock_getres(ClockId::Monotonic);
    let nanos = resolution.tv_sec.saturating_mul(1_000_000_000) + resolution.tv_nsec;
    // The cost of a call shows whether it enters the kernel.
    const CALLS: u32 = 10_000;
    let start = std::time::Instant::now();
    for _ in 0..CALLS {
        std::hint::black_box(clock_gettime(ClockId::Monotonic));
    }
    let cost = start.elapsed().as_nanos() / u128::from(CALLS);
    let source =
        fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default();
    let source = if source.trim().is_empty() { "unknown" } else { source.trim() };
    let found = format!("resolution {nanos} ns, {cost} ns a call, source {source}");
    let advice = "let the kernel use a hardware clock (tsc, kvm-clock, arch_sys_counter)";
    CheckResult::of("clock", nanos <= FINE_CLOCK_NS && cost < 1000, found, advice).wish()
}

fn huge_pages() -> CheckResult {
    let name = "huge pages";
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let shared = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    let policy = shared.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let reserved = read("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    let reserved = reserved.trim().parse::<u64>().unwrap_or(0);
    let found = format!("shared memory: {policy}; reserved: {reserved} of 2 MiB");
    let helps = reserved > 0 || matches!(policy.as_str(), "always" | "within_size" | "advise");
    let advice = "large writers may gain from `advise` in \
                  /sys/kernel/mm/transparent_hugepage/shmem_enabled";
    CheckResult::of(name, helps, found, advice).wish()
}
