//! Reading of the interface files of ROS 2 packages.
//!
//! Owns the search for the messages that a file uses: in the directory that has the file's own
//! package, then in the directories of the run. Each file is read once.

use std::path::{Path, PathBuf};

use crate::ros::{self, Reference};
use crate::source::{Span, decode};

use super::{KnownFile, MAX_INCLUDE_DEPTH, MAX_INCLUDES, MAX_TOKENS, Preprocessor};

impl Preprocessor<'_> {
    /// Reads an interface file after the messages that it uses.
    pub(super) fn interface(&mut self, path: &Path, text: String, depth: usize) {
        let identity = self.files.identity(path);
        if self.stopped || self.known.contains_key(&identity) {
            return;
        }
        let id = self.sources.add(&path.display().to_string(), text);
        self.known.insert(identity.clone(), KnownFile { id, conditional: false });
        self.read_now.insert(identity.clone());
        let text = std::rc::Rc::clone(&self.sources.file(id).text);
        let interface = ros::translate(&identity, id, &text, self.reports);
        let mut complete = !interface.tokens.is_empty();
        for reference in &interface.references {
            complete &= self.referenced(reference, &identity, depth);
        }
        if !complete {
            // The error has been reported; without this file, its names cause no more of them.
            self.incomplete.insert(identity);
            return;
        }
        self.out.tokens.extend(interface.tokens);
        if self.out.tokens.len() > MAX_TOKENS {
            let start = Span { file: id, start: 0, end: 0 };
            self.stop(start, "this run of the compiler has too many tokens");
        }
    }

    /// Reads the file of a message, and returns whether all that it needs was found.
    fn referenced(&mut self, reference: &Reference, from: &Path, depth: usize) -> bool {
        let Reference { package, name, span } = reference;
        let file: PathBuf = [package, "msg", &format!("{name}.msg")].iter().collect();
        let own = from.ancestors().nth(3).map(Path::to_owned);
        let directories: Vec<PathBuf> =
            own.into_iter().chain(self.settings.directories.iter().cloned()).collect();
        for directory in &directories {
            let path = directory.join(&file);
            let identity = self.files.identity(&path);
            if self.known.contains_key(&identity) {
                return !self.incomplete.contains(&identity);
            }
            let Ok(bytes) = self.files.read(&path) else { continue };
            self.includes += 1;
            if depth >= MAX_INCLUDE_DEPTH || self.includes > MAX_INCLUDES {
                self.stop(*span, "messages use each other too deep");
                return false;
            }
            self.out.files.push(path.clone());
            self.interface(&path, decode(bytes), depth + 1);
            return !self.incomplete.contains(&identity);
        }
        let shown: Vec<String> = directories
            .iter()
            .map(|directory| directory.display().to_string())
            .map(|shown| if shown.is_empty() { ".".to_owned() } else { shown })
            .collect();
        let text = format!(
            "there is no `{}`; looked for in {}; give the directory of `{package}` by -I",
            file.display(),
            shown.join(", ")
        );
        self.reports.error(*span, text);
        false
    }
}
