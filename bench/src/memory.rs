//! How much memory this process holds.

use std::fs;

/// Bytes of this process that are in memory, as Linux counts them; 0 where it does not.
pub fn resident_bytes() -> u64 {
    status("VmRSS:")
}

/// The most that [`resident_bytes`] has ever been in this process.
pub fn peak_bytes() -> u64 {
    status("VmHWM:")
}

/// From now on the peak is what is there now, and what comes, of the process of this id.
pub fn forget_peak(process: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5")
}

fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_seen() {
        let before = resident_bytes();
        let touched = vec![1_u8; 64 << 20];
        let after = resident_bytes();
        assert!(after >= before + (60 << 20), "{before} before, {after} after {}", touched.len());
        drop(touched);
        assert!(peak_bytes() >= before + (60 << 20), "what was given back is forgotten: {}", peak_bytes());
        forget_peak(std::process::id()).unwrap();
        assert!(peak_bytes() < before + (60 << 20), "it is still known: {}", peak_bytes());
    }
}
