//! Scheduling of the engine's threads: their cores and their scheduling class.
//!
//! Owns: the requests to the kernel, and the error messages for refusals. Never does: change any
//! thread other than its caller.

use std::fmt;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Scheduling class of a thread.
///
/// ```
/// use derecho_node::{Cores, SchedulingClass, ThreadSettings};
///
/// let cores = Cores::new([0])?;
/// let settings = ThreadSettings { class: Some(SchedulingClass::Fifo(20)), cores };
/// if let Err(why) = settings.try_out() {
///     eprintln!("{why}");                     // which privilege or limit is missing
/// }
/// # Ok::<(), derecho_node::ThreadError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedulingClass {
    /// The usual class: SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_FIFO with a priority from 1 to 99: runs before all other threads until it sleeps.
    Fifo(u8),
    /// SCHED_RR with a priority from 1 to 99: as `Fifo`, but takes turns with threads of
    /// its priority.
    RoundRobin(u8),
}

/// Set of processor cores, by number.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cores([u64; CpuSet::MAX_CPU / 64]);

impl Cores {
    /// Creates a set of these cores.
    ///
    /// # Errors
    /// [`ThreadError`] if a number is beyond those that the kernel supports.
    pub fn new(cores: impl IntoIterator<Item = usize>) -> Result<Cores, ThreadError> {
        let mut all = Cores::default();
        for core in cores {
            let word = all.0.get_mut(core / 64).ok_or_else(|| {
                ThreadError(format!(
                    "there is no core {core}: core numbers are below {}",
                    CpuSet::MAX_CPU
                ))
            })?;
            *word |= 1 << (core % 64);
        }
        Ok(all)
    }

    /// Returns the numbers of the cores.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CpuSet::MAX_CPU).filter(|core| self.0[core / 64] & (1 << (core % 64)) != 0)
    }
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.numbers()).finish()
    }
}

/// Settings that a thread requests from the kernel when it begins. The default requests nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadSettings {
    /// Cores on which the thread may run; if empty, those of the thread that started it.
    pub cores: Cores,
    /// Scheduling class; if `None`, that of the thread that started it.
    pub class: Option<SchedulingClass>,
}

/// Error for settings that the kernel refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadError(String);

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ThreadError {}

impl ThreadSettings {
    /// Applies the settings to the calling thread.
    ///
    /// # Errors
    /// The setting that the kernel refuses, and what to do.
    pub fn apply(&self) -> Result<(), ThreadError> {
        if self.cores != Cores::default() {
            pin(self.cores)?;
        }
        self.class.map_or(Ok(()), schedule)
    }

    /// Checks whether a thread could have these settings, with a thread that ends at once.
    ///
    /// # Errors
    /// As for [`ThreadSettings::apply`].
    pub fn try_out(&self) -> Result<(), ThreadError> {
        if *self == ThreadSettings::default() {
            return Ok(());
        }
        let settings = *self;
        let thread = std::thread::Builder::new().name("squall-trial".into());
        let tried = thread.spawn(move || settings.apply());
        let failed =
            |why: &dyn fmt::Display| ThreadError(format!("no thread could be started: {why}"));
        match tried {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(failed(&"it panicked"))),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Applies settings that were tried out before; a refusal is logged.
    pub(crate) fn begin(&self) {
        if let Err(error) = self.apply() {
            tracing::error!(%error, "a thread of the engine runs without its settings");
        }
    }
}

fn pin(cores: Cores) -> Result<(), ThreadError> {
    let mut set = CpuSet::new();
    cores.numbers().for_each(|core| set.set(core));
    let pinned = sched_setaffinity(None, &set);
    // The kernel accepts a set if at least one of its cores exists.
    let has = sched_getaffinity(None).unwrap_or(set);
    let missing = cores.numbers().find(|core| !has.is_set(*core));
    let why = match (pinned, missing) {
        (Ok(()), None) => return Ok(()),
        (Ok(()), Some(core)) => format!("there is no core {core} that the thread may use"),
        (Err(errno), _) => std::io::Error::from(errno).to_string(),
    };
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    Err(ThreadError(format!(
        "a thread cannot be pinned to the cores {cores:?}: {why}; this machine has {}, and the process may be limited to \
         fewer cores (taskset, cpuset cgroups)",
        online.trim()
    )))
}

#[repr(C)]
struct SchedParam {
    priority: i32,
}

unsafe extern "C" {
    // Function of the C library that `rustix` lacks. Thread zero is the calling thread.
    fn sched_setscheduler(thread: i32, policy: i32, param: *const SchedParam) -> i32;
}

/// Signal set of the size that the C libraries of Linux use; all zeros is the empty set.
#[repr(C)]
struct SignalSet([u64; 16]);

/// Signal for a write that would make a file longer than the process's limit.
const SIGXFSZ: i32 = 25;
/// Adds to the masked signals.
const SIG_BLOCK: i32 = 0;

unsafe extern "C" {
    fn sigaddset(set: *mut SignalSet, signal: i32) -> i32;
    fn pthread_sigmask(how: i32, set: *const SignalSet, before: *mut SignalSet) -> i32;
}

/// Makes writes of the calling thread fail with an error if they would make a file longer than
/// RLIMIT_FSIZE allows. Otherwise a signal would end the process.
pub(crate) fn fail_where_files_end() {
    let mut set = SignalSet([0; 16]);
    // SAFETY: the set is as large as the C library's, and lives through both calls; the previous
    // mask is not requested.
    let masked = unsafe {
        sigaddset(&raw mut set, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &raw const set, std::ptr::null_mut())
    };
    if masked != 0 {
        tracing::warn!("SIGXFSZ not blocked: a file size limit would end this process: {masked}");
    }
}

fn schedule(class: SchedulingClass) -> Result<(), ThreadError> {
    let (policy, priority, word) = match class {
        SchedulingClass::Other => (0, 0, "SCHED_OTHER"),
        SchedulingClass::Fifo(priority) => (1, priority, "SCHED_FIFO"),
        SchedulingClass::RoundRobin(priority) => (2, priority, "SCHED_RR"),
    };
    let param = SchedParam { priority: i32::from(priority) };
    // SAFETY: the parameter lives through the call, and has the layout that the C library expects.
    if unsafe { sched_setscheduler(0, policy, &raw const param) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    let limit = getrlimit(Resource::Rtprio).current.map_or("any".to_owned(), |it| it.to_string());
    let what = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL) => "priorities go from 1 to 99".to_owned(),
        _ => format!(
            "the process needs CAP_SYS_NICE, or an RLIMIT_RTPRIO of at least {priority} (here: \
             {limit}): `ulimit -r {priority}`, `LimitRTPRIO={priority}` of a systemd unit, or \
             `setcap cap_sys_nice=ep` on the program; in a container also real-time processor time \
             (cpu.rt_runtime_us)"
        ),
    };
    Err(ThreadError(format!(
        "a thread cannot be scheduled by {word} with priority {priority}: {error}; {what}"
    )))
}
