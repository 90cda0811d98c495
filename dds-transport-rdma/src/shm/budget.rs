//! Check of whether the memory that is about to be allocated is available.
//!
//! A memfd has no size limit of its own: allocating far too much of it triggers the kernel's
//! out-of-memory killer instead of failing. The need is therefore compared with the available
//! memory first.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes left to the rest of the host, whatever a region needs.
const RESERVE: u64 = 32 << 20;

/// Memory that this node may still allocate, under several limits.
pub(crate) struct MemoryBudget {
    /// The user's own limit in bytes.
    limit: Option<u64>,
    /// Bytes that this node has allocated so far.
    taken: u64,
    /// Folders of the control groups that hold this process, from its own to the root.
    control_groups: Vec<PathBuf>,
}

impl MemoryBudget {
    /// Creates a budget under the user's `limit`, the control groups' and the host's.
    pub(crate) fn new(limit: Option<u64>) -> MemoryBudget {
        MemoryBudget { limit, taken: 0, control_groups: control_groups() }
    }

    /// Accounts for `need` bytes that are about to be allocated. An error says why they cannot be.
    pub(crate) fn take(&mut self, need: u64) -> Result<(), String> {
        if let Some(limit) = self.limit
            && self.taken.saturating_add(need) > limit
        {
            return Err(format!(
                "{need} bytes of shared memory are needed and {} of the limit of {limit} bytes are \
                 in use; raise SQUALL_MEMORY_LIMIT or open fewer or smaller regions",
                self.taken
            ));
        }
        self.check_host(need)?;
        self.taken += need;
        Ok(())
    }

    /// Accounts for `bytes` bytes that were returned to the host.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    fn check_host(&self, need: u64) -> Result<(), String> {
        let wanted = need.saturating_add(RESERVE);
        if let Some(available) = available_memory()
            && wanted > available
        {
            return Err(format!(
                "{need} bytes of shared memory are needed and this host has {available} bytes \
                 available, of which {RESERVE} stay in reserve; open fewer or smaller regions or \
                 free memory"
            ));
        }
        for group in &self.control_groups {
            if let Some(room) = room_in(group)
                && need > room
            {
                return Err(format!(
                    "{need} bytes of shared memory are needed and the control group {} has room \
                     for {room}; raise its limit (memory.max, or memory.limit_in_bytes) or open fewer or smaller regions",
                    group.display()
                ));
            }
        }
        Ok(())
    }
}

/// Whether the host and the control groups have room for a mapping that may have no memory yet.
pub(crate) fn check_room(need: u64) -> Result<(), String> {
    MemoryBudget::new(None).check_host(need)
}

/// Returns `MemAvailable` of the host, in bytes.
fn available_memory() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Relevant files of a control group, by version of the interface: the limit, the usage, and the
/// line of `memory.stat` that counts the page cache that the kernel would drop first.
const FILES: [[&str; 3]; 2] = [
    ["memory.max", "memory.current", "inactive_file "],
    ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
];

/// Returns the folders of this process's control groups that can have a limit.
fn control_groups() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    control_groups_in(Path::new("/sys/fs/cgroup"), &text)
}

/// Returns the control groups that `text`, the kernel's list for this process, names below the
/// mount point `root`.
fn control_groups_in(root: &Path, text: &str) -> Vec<PathBuf> {
    // `0::/group` is version 2, `5:memory:/group` is version 1, which has a hierarchy for
    // each controller.
    let folder = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        match controllers {
            "" => Some((root.to_owned(), root.join(group))),
            _ if controllers.split(',').any(|it| it == "memory") => {
                let root = root.join("memory");
                Some((root.clone(), root.join(group)))
            }
            _ => None,
        }
    };
    let mut groups = Vec::new();
    for (root, own) in text.lines().filter_map(folder) {
        let above = own.ancestors().take_while(|folder| folder.starts_with(&root));
        let limited =
            above.filter(|folder| FILES.iter().any(|[limit, ..]| folder.join(limit).exists()));
        groups.extend(limited.map(Path::to_owned));
    }
    groups
}

/// Returns the bytes for which a control group has room, if it has a limit. Page cache that the
/// kernel would drop first counts as room.
fn room_in(group: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let [limit, taken, cached] = FILES.iter().find(|[limit, ..]| group.join(limit).exists())?;
    let max = read(limit)?.trim().parse::<u64>().ok()?;
    let current = read(taken)?.trim().parse::<u64>().ok()?;
    let cache = read("memory.stat")
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix(cached))?.parse().ok())
        .unwrap_or(0);
    Some(max.saturating_sub(current.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_enforces_user_limit_on_sum_of_takes() {
        let mut budget = MemoryBudget { limit: Some(10_000), taken: 0, control_groups: Vec::new() };
        assert_eq!(budget.take(6_000), Ok(()));
        let refused = budget.take(6_000).unwrap_err();
        assert!(refused.contains("SQUALL_MEMORY_LIMIT"), "{refused}");
        budget.give_back(6_000);
        assert_eq!(budget.take(10_000), Ok(()));
    }

    #[test]
    fn budget_refuses_more_memory_than_host_has_available() {
        let mut budget = MemoryBudget::new(None);
        let refused = budget.take(u64::MAX / 2).unwrap_err();
        assert!(refused.contains("available"), "{refused}");
    }

    #[test]
    fn budget_grants_memory_up_to_control_group_limit() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        put("memory.max", "max\n");
        put("memory.current", "700\n");
        assert_eq!(room_in(folder.path()), None);
        put("memory.max", "1000\n");
        assert_eq!(room_in(folder.path()), Some(300));
        put("memory.stat", "anon 1\ninactive_file 200\n");
        assert_eq!(room_in(folder.path()), Some(500));
        let mut budget =
            MemoryBudget { limit: None, taken: 0, control_groups: vec![folder.path().to_owned()] };
        assert!(budget.take(501).unwrap_err().contains("memory.max"));
        assert_eq!(budget.take(500), Ok(()));
    }

    #[test]
    fn control_group_limits_of_both_versions_are_found_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(root.join(group)).unwrap();
            fs::write(root.join(group).join(file), text).unwrap();
        };
        put("memory/a/b", "memory.limit_in_bytes", "1000\n");
        put("memory/a/b", "memory.usage_in_bytes", "900\n");
        put("memory/a/b", "memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
        put("memory/a", "memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/a", "memory.usage_in_bytes", "900\n");
        put("c", "memory.max", "500\n");
        put("c", "memory.current", "1\n");
        let text = "11:cpu,cpuacct:/x\n5:hugetlb,memory:/a/b\n1:name=systemd:/y\n0::/c\n";
        let groups = control_groups_in(root, text);
        assert_eq!(groups, ["memory/a/b", "memory/a", "c"].map(|it| root.join(it)));
        assert_eq!(room_in(&groups[0]), Some(150));
        assert!(room_in(&groups[1]).is_some_and(|room| room > 1 << 60));
        assert_eq!(room_in(&groups[2]), Some(499));
        assert_eq!(control_groups_in(root, "0::/nowhere\n"), [] as [PathBuf; 0]);
    }

    #[test]
    fn parser_reads_available_memory_from_kernel_report() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:   12 kB\n"), Some(12 * 1024));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
    }
}
