//! Source of policies for applications.
//!
//! Owns: the choice of files, the time of reading, and the guarantee that all callers see either
//! the old profiles or the new ones. Never does: apply policies to an entity.

use super::application::{self, Applications};
use super::error::{FilePosition, Ignored, LineColumn, ProfileError, ProfileErrors, UnplacedError};
use super::fast;
use super::model::Libraries;
use super::read::{Content, load};
use super::ready;
use super::resolved::{self, ResolvedEntity, ResolvedProfile, UnknownProfile};
use super::uri::{Location, locations};
use super::{ApplicationTypes, ParticipantDescription, TypeText, UnknownParticipant};
use super::{check, read};
use crate::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, EntityKind, EntityQos, PublisherQos,
    SubscriberQos, TopicQos,
};
use std::ffi::c_ulong;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Environment variable that names files of profiles, as a list of URIs.
pub const FILES_VARIABLE: &str = "SQUALL_QOS_FILES";
/// File of profiles that is read if it is in the working folder.
pub const DEFAULT_FILE: &str = "SQUALL_QOS_PROFILES.xml";

/// Profiles from files, and their policies.
///
/// The ready-made profiles (`Squall::Atomic` and the others, see
/// `docs/reference/qos-profiles.md`) are always included. A name is `Library::Profile`.
/// `Library::Profile::Name` or `Library::Name` is a named set of policies.
///
/// ```
/// use qos_profiles::xml::QosProvider;
///
/// let provider = QosProvider::from_str(
///     r#"<dds>
///            <qos_library name="Fleet">
///                <qos_profile name="State" base_name="Squall::Atomic">
///                    <datawriter_qos>
///                        <deadline><period><sec>0</sec><nanosec>50000000</nanosec></period></deadline>
///                    </datawriter_qos>
///                </qos_profile>
///            </qos_library>
///        </dds>"#,
/// )?;
/// let writer = provider.datawriter_qos("Fleet::State")?;
/// assert_eq!(writer.deadline.period, qos_profiles::Duration::from_millis(50));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QosProvider {
    locations: Vec<Location>,
    profiles: RwLock<Arc<Profiles>>,
}

/// Result of reading the files once.
struct Profiles {
    libraries: Libraries,
    applications: Applications,
    ignored: Vec<Ignored>,
}

impl std::fmt::Debug for Profiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Profiles").field(&resolved::names(&self.libraries)).finish()
    }
}

impl QosProvider {
    /// Reads the profiles of a file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ProfileErrors> {
        Self::new(vec![Location::File(path.as_ref().to_owned())])
    }

    /// Reads the profiles of several files, which may inherit from each other, in any order.
    pub fn from_files<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, ProfileErrors> {
        let file = |path: P| Location::File(path.as_ref().to_owned());
        Self::new(paths.into_iter().map(file).collect())
    }

    /// Reads the profiles of a text, which is named `str:1` in errors.
    #[allow(
        clippy::should_implement_trait,
        reason = "a provider is not what the text says; its siblings are from_file and from_uri_list"
    )]
    pub fn from_str(text: &str) -> Result<Self, ProfileErrors> {
        Self::new(vec![Location::Text("str:1".to_owned(), text.to_owned())])
    }

    /// Reads the profiles of a list of places, separated by `;`: `file:///etc/fleet.xml`,
    /// `fleet.xml`, `str://"<dds>...</dds>"`. They may inherit from each other, in any order.
    pub fn from_uri_list(list: &str) -> Result<Self, ProfileErrors> {
        Self::new(locations(list).map_err(|what| wrong_list("the list of files", list, what))?)
    }

    /// Reads the profiles of the files in `SQUALL_QOS_FILES`, and of `SQUALL_QOS_PROFILES.xml` if
    /// it is in the working folder. Without either, only the ready-made profiles are present. A
    /// program with more rights than its caller (setuid, setgid, file capabilities) ignores both,
    /// because the caller controls them.
    pub fn from_environment() -> Result<Self, ProfileErrors> {
        if is_privileged() {
            return Self::new(Vec::new());
        }
        let list = match std::env::var(FILES_VARIABLE) {
            Ok(list) => list,
            Err(std::env::VarError::NotPresent) => String::new(),
            Err(std::env::VarError::NotUnicode(list)) => {
                let what = "the list is not UTF-8".to_owned();
                return Err(wrong_list(FILES_VARIABLE, &list.to_string_lossy(), what));
            }
        };
        let mut locations =
            locations(&list).map_err(|what| wrong_list(FILES_VARIABLE, &list, what))?;
        let default = Path::new(DEFAULT_FILE);
        let is_default =
            |location: &Location| matches!(location, Location::File(path) if path == default);
        if !locations.iter().any(is_default) {
            locations.push(Location::FileIfThere(default.to_owned()));
        }
        Self::new(locations)
    }

    fn new(locations: Vec<Location>) -> Result<Self, ProfileErrors> {
        Self::judged(locations, |_| Vec::new())
    }

    fn judged(
        locations: Vec<Location>,
        judge: impl FnOnce(&ApplicationTypes<'_>) -> Vec<ProfileError>,
    ) -> Result<Self, ProfileErrors> {
        let (profiles, types, mut errors) = Profiles::read(&locations);
        errors.extend(judge(&profiles.applications.of_types(&types)));
        match ProfileErrors::of(errors) {
            Some(errors) => Err(errors.with_lines(|file| text_of(&locations, file))),
            None => Ok(Self { locations, profiles: RwLock::new(Arc::new(profiles)) }),
        }
    }

    /// Reads the profiles and applications of several files with further checks of types by
    /// `judge`. `judge` receives all types and their uses, even if there are other errors, and
    /// returns its own errors.
    pub fn from_files_with<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        judge: impl FnOnce(&ApplicationTypes<'_>) -> Vec<ProfileError>,
    ) -> Result<Self, ProfileErrors> {
        let file = |path: P| Location::File(path.as_ref().to_owned());
        Self::judged(paths.into_iter().map(file).collect(), judge)
    }

    /// Reads all files again. All callers see either all old profiles or all new ones. If the new
    /// ones have any error, the old ones stay.
    pub fn reload(&self) -> Result<(), ProfileErrors> {
        let (new, _, errors) = Profiles::read(&self.locations);
        if let Some(errors) = ProfileErrors::of(errors) {
            return Err(errors.with_lines(|file| text_of(&self.locations, file)));
        }
        *self.profiles.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(())
    }

    fn profiles(&self) -> Arc<Profiles> {
        Arc::clone(&self.profiles.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the places searched for profiles beside the ready-made ones, for messages.
    pub fn places(&self) -> Vec<String> {
        self.locations.iter().map(Location::to_string).collect()
    }

    /// Returns the names of all profiles, without the ready-made ones that have the names of
    /// another product's.
    pub fn profile_names(&self) -> Vec<String> {
        let profiles = self.profiles();
        let all = profiles.libraries.iter().flat_map(|(library, content)| {
            let own = content.profiles.iter().filter(|profile| &*profile.file != ready::CONNEXT);
            own.map(|profile| super::model::full_name(library, &profile.name))
        });
        all.collect()
    }

    /// Returns the name of the profile with `is_default_qos`, if there is one.
    pub fn default_profile(&self) -> Option<String> {
        let profiles = self.profiles();
        let mut all = profiles.libraries.iter().flat_map(|(library, content)| {
            content.profiles.iter().map(move |profile| (library, profile))
        });
        let (library, profile) = all.find(|(_, profile)| profile.is_default)?;
        Some(super::model::full_name(library, &profile.name))
    }

    /// Returns all profiles of the files as one file in the form of the standard, with the values
    /// that differ from the standard's defaults because a profile or one of its bases says so. What
    /// has no effect here is named in a comment. Ready-made profiles, sets outside of profiles,
    /// types and applications are left out.
    pub fn to_xml(&self) -> String {
        let (profiles, default) = (self.profiles(), self.default_profile());
        let mut own = Vec::new();
        for (library, content) in &profiles.libraries {
            for profile in &content.profiles {
                if !ready::FILES.iter().any(|(file, _)| **file == *profile.file) {
                    let name = super::model::full_name(library, &profile.name);
                    own.extend(resolved::profile(&profiles.libraries, &name));
                }
            }
        }
        super::write::all(&own, default.as_deref(), &profiles.ignored)
    }

    /// Returns the elements for other products only, up to a thousand of a file.
    pub fn ignored(&self) -> Vec<Ignored> {
        self.profiles().ignored.clone()
    }

    /// Returns the names of all participants described in files.
    pub fn participant_names(&self) -> Vec<String> {
        self.profiles().applications.participant_names()
    }

    /// Returns a participant with all its entities, by its name `Library::Participant`.
    pub fn participant(&self, name: &str) -> Result<ParticipantDescription, UnknownParticipant> {
        application::describe(&self.profiles().applications, name)
    }

    /// Returns a profile with all values resolved.
    pub fn profile(&self, name: &str) -> Result<ResolvedProfile, UnknownProfile> {
        resolved::profile(&self.profiles().libraries, name)
    }

    /// Returns the policies of a kind of entity, with their properties and the origin of each
    /// value. If a topic is given, the profile's filters select the set for it.
    pub fn entity(
        &self,
        kind: EntityKind,
        name: &str,
        topic: Option<&str>,
    ) -> Result<ResolvedEntity, UnknownProfile> {
        resolved::entity(&self.profiles().libraries, kind, name, topic)
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $method:ident, $kind:ident, $qos:ident;)*) => {
        impl QosProvider {
            $(
                $(#[$doc])*
                pub fn $method(&self, name: &str) -> Result<$qos, UnknownProfile> {
                    match self.entity(EntityKind::$kind, name, None)?.qos {
                        EntityQos::$kind(qos) => Ok(qos),
                        _ => unreachable!("an entity of another kind than was asked for"),
                    }
                }
            )*
        }
    };
    ($($(#[$doc:meta])* $method:ident for a topic, $kind:ident, $qos:ident;)*) => {
        impl QosProvider {
            $(
                $(#[$doc])*
                pub fn $method(&self, name: &str, topic: &str) -> Result<$qos, UnknownProfile> {
                    match self.entity(EntityKind::$kind, name, Some(topic))?.qos {
                        EntityQos::$kind(qos) => Ok(qos),
                        _ => unreachable!("an entity of another kind than was asked for"),
                    }
                }
            )*
        }
    };
}

getters! {
    /// Returns the policies of a participant.
    participant_qos, DomainParticipant, DomainParticipantQos;
    /// Returns the policies of a topic.
    topic_qos, Topic, TopicQos;
    /// Returns the policies of a publisher.
    publisher_qos, Publisher, PublisherQos;
    /// Returns the policies of a subscriber.
    subscriber_qos, Subscriber, SubscriberQos;
    /// Returns the policies of a writer.
    datawriter_qos, DataWriter, DataWriterQos;
    /// Returns the policies of a reader.
    datareader_qos, DataReader, DataReaderQos;
}

getters! {
    /// Returns the policies of a topic of this name, by the profile's filters.
    topic_qos_for for a topic, Topic, TopicQos;
    /// Returns the policies of a writer of this topic, by the profile's filters.
    datawriter_qos_for for a topic, DataWriter, DataWriterQos;
    /// Returns the policies of a reader of this topic, by the profile's filters.
    datareader_qos_for for a topic, DataReader, DataReaderQos;
}

impl Profiles {
    /// Reads files; also returns their types, and their errors.
    fn read(locations: &[Location]) -> (Self, TypeText, Vec<ProfileError>) {
        let (mut content, mut ignored) = (Content::default(), Vec::new());
        let mut errors = Vec::new();
        let mut all_read = true;
        let mut add = |content: &mut Content, file: &str, bytes: &[u8]| {
            let report = read::read(content, &file.into(), bytes);
            errors.extend(report.errors);
            all_read &= report.is_complete;
            ignored.extend(report.ignored);
        };
        for (file, text) in ready::FILES {
            add(&mut content, file, text.as_bytes());
        }
        let mut unread = Vec::new();
        for location in locations {
            match location {
                Location::Text(name, text) => add(&mut content, name, text.as_bytes()),
                // A file included by another one has already been read.
                Location::File(path) | Location::FileIfThere(path) if content.is_included(path) => {
                }
                Location::File(path) | Location::FileIfThere(path) => match load(path) {
                    Ok(bytes) => {
                        content.note(path);
                        add(&mut content, &path.display().to_string(), &bytes);
                    }
                    Err(error)
                        if error.kind() == std::io::ErrorKind::NotFound
                            && matches!(location, Location::FileIfThere(_)) => {}
                    Err(error) => unread.push(whole_file(
                        &path.display().to_string(),
                        UnplacedError::new(
                            format!("cannot be read ({error})"),
                            "expected a file that can be read",
                        ),
                    )),
                },
            }
        }
        all_read &= unread.is_empty();
        errors.extend(unread);
        let Content { mut libraries, applications, types, .. } = content;
        libraries.values_mut().for_each(|library| fast::add_topics(&mut library.profiles));
        errors.extend(check::check(&libraries, all_read));
        if all_read {
            errors.extend(application::check(&applications));
        }
        (Profiles { libraries, applications, ignored }, types, errors)
    }
}

/// Returns the text of a file by its name in errors. A file is read again, because its text is not
/// kept.
fn text_of(locations: &[Location], file: &str) -> Option<Vec<u8>> {
    let text = locations.iter().find_map(|location| match location {
        Location::Text(name, text) if name == file => Some(text.clone().into_bytes()),
        _ => None,
    });
    text.or_else(|| load(Path::new(file)).ok())
}

fn whole_file(file: &str, error: UnplacedError) -> ProfileError {
    let UnplacedError { found, expected, suggestion } = error;
    let position = FilePosition::new(&file.into(), LineColumn::default());
    ProfileError { place: position, path: String::new(), found, expected, suggestion }
}

fn wrong_list(name: &str, list: &str, what: String) -> ProfileErrors {
    let found = format!("found {}: {what}", super::error::quoted(list));
    let error = UnplacedError::new(found, "expected paths of files, separated by `;`");
    ProfileErrors::new(vec![whole_file(name, error)])
}

/// Whether this program has more rights than its caller, as recorded by the kernel at
/// program start.
pub(super) fn is_privileged() -> bool {
    const AT_SECURE: c_ulong = 23;
    unsafe extern "C" {
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: the function only reads values that the kernel gave the program at its start.
    unsafe { getauxval(AT_SECURE) != 0 }
}
