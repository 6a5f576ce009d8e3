//! The environment that commands get: nothing but what is known to be needed or was asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Names that pass.
const NAMES: [&str; 16] = [
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "SSH_AUTH_SOCK",
    "DISPLAY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
];
/// Beginnings of names that pass.
const PREFIXES: [&str; 4] = ["LC_", "WAYLAND_", "XDG_", "DBUS_"];

/// Tells whether every face may send the variable of this name: it says where and how one works, and holds no secret.
#[must_use]
pub fn passes_always(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns what of a face's environment a command may see: the known names and the declared ones.
///
/// A declared name that the face does not have is left out; whoever declared it asks for it.
#[must_use]
pub fn clean_env(face: &BTreeMap<OsString, OsString>, declared: &[String]) -> BTreeMap<OsString, OsString> {
    face.iter()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| passes_always(name) || declared.iter().any(|declared| declared == name))
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_and_declared_names_pass() {
        let face: BTreeMap<OsString, OsString> = [
            "PATH",
            "HOME",
            "LANG",
            "LC_ALL",
            "TERM",
            "SSH_AUTH_SOCK",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "XDG_RUNTIME_DIR",
            "DBUS_SESSION_BUS_ADDRESS",
            "https_proxy",
            "NO_PROXY",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "LD_PRELOAD",
            "GITHUB_TOKEN",
            "PENTAD_RUN",
            "XDGX",
            "PATHS",
        ]
        .into_iter()
        .map(|name| (name.into(), "value".into()))
        .collect();
        let passed = clean_env(&face, &["GITHUB_TOKEN".into(), "NOT_SET".into()]);
        let names: Vec<_> = passed.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "DBUS_SESSION_BUS_ADDRESS",
                "DISPLAY",
                "GITHUB_TOKEN",
                "HOME",
                "LANG",
                "LC_ALL",
                "NO_PROXY",
                "PATH",
                "SSH_AUTH_SOCK",
                "TERM",
                "WAYLAND_DISPLAY",
                "XDG_RUNTIME_DIR",
                "https_proxy",
            ]
        );
    }
}
