//! Opens the page in a browser.

use std::process::{Command, Stdio};

/// Asks the system to open the address. Where it cannot, the user opens the address that was printed.
pub(crate) fn open(url: &str) {
    let Some(mut command) = opener() else { return };
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return };
    // Waiting for it leaves no dead process behind.
    std::thread::spawn(move || child.wait());
}

#[cfg(target_os = "macos")]
fn opener() -> Option<Command> {
    Some(Command::new("open"))
}

#[cfg(windows)]
fn opener() -> Option<Command> {
    let mut command = Command::new("rundll32");
    command.arg("url.dll,FileProtocolHandler");
    Some(command)
}

/// Without a screen, `xdg-open` would start a browser for terminals.
#[cfg(not(any(target_os = "macos", windows)))]
fn opener() -> Option<Command> {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_screen.then(|| Command::new("xdg-open"))
}
