//! What the table says about a function: its parameters with kind and direction, its class, and
//! how the front serves it.

/// One function of MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The standard's name, `MPI_Send`.
    pub name: String,
    /// Heading under which the table lists it.
    pub heading: String,
    /// What the function is, as seen by the safe state.
    pub class: Class,
    /// Who does the work in the upper half.
    pub via: Via,
    /// What the C function returns.
    pub returns: Returns,
    /// Its parameters in order.
    pub params: Vec<Param>,
    /// Index of its slot in the gate's table.
    pub slot: usize,
}

impl Function {
    /// The function as the table spells it, but for what people alone read: parameters have their places for
    /// names.
    pub fn row(&self) -> String {
        let place = |name: &str| {
            let at = self.params.iter().position(|param| param.name == name);
            at.map_or(String::new(), |at| at.to_string())
        };
        let params = self.params.iter().map(|param| {
            let direction = match param.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            let kind = spelled_as(KINDS, param.kind);
            let other = param.other.map_or("", |other| spelled_as(KINDS, other));
            let length = match &param.array {
                None => String::new(),
                Some(Length::Param(name)) => format!("[{}]", place(name)),
                Some(Length::CommSize(name)) => format!("[size({})]", place(name)),
                Some(Length::Neighbours(name, true)) => format!("[in({})]", place(name)),
                Some(Length::Neighbours(name, false)) => format!("[out({})]", place(name)),
                Some(Length::Bytes(bytes)) => format!("[{bytes} bytes]"),
                Some(Length::Opaque) => "[*]".to_owned(),
            };
            format!("{direction} {kind}/{other}{length}")
        });
        let params: Vec<String> = params.collect();
        let returns = match self.returns {
            Returns::Error => "error",
            Returns::Double => "double",
            Returns::Aint => "aint",
            Returns::Fint => "fint",
            Returns::Handle(kind) => spelled_as(KINDS, kind),
        };
        format!(
            "{} {} {} {}({}) -> {returns}",
            self.slot,
            spelled_as(CLASSES, self.class),
            spelled_as(VIAS, self.via),
            self.name,
            params.join(", "),
        )
    }
}

/// How a front serves a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// `upper_half::<snake_name>`, written by hand, does it (the front converts arguments).
    Core,
    /// Nothing but conversion and a crossing.
    Direct,
    /// Answers with its name and "not supported", through the error handler.
    Refuse,
}

/// Class of a function, as the safe state sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Touches this process only.
    Local,
    /// Starts or does a point-to-point send.
    Send,
    /// Starts or does a point-to-point receive, or a probe.
    Receive,
    /// Both (MPI_Sendrecv).
    SendReceive,
    /// Completes requests.
    Completion,
    /// Blocking collective over its `comm`.
    Collective,
    /// Non-blocking collective over its `comm`.
    CollectiveNonblocking,
    /// Makes a request by which a non-blocking collective is started any number of times.
    CollectivePersistent,
    /// Makes or frees an object, locally.
    Object,
    /// Makes an object collectively.
    ObjectCollective,
    /// Windows.
    Window,
    /// Files: what a process does alone.
    File,
    /// Blocking collective over those who opened the file.
    FileCollective,
    /// Non-blocking collective over those who opened the file.
    FileCollectiveNonblocking,
    /// Dynamic processes.
    Process,
    /// Initialisation and finalisation.
    Environment,
    /// Tools interface: errors are returned, no error handler is called.
    Tool,
}

impl Class {
    /// Whether it is about files: errors are the file's, or MPI_FILE_NULL's, and no communicator's.
    pub fn is_file(self) -> bool {
        matches!(
            self,
            Class::File | Class::FileCollective | Class::FileCollectiveNonblocking
        )
    }
}

/// By what a function of MPI-IO finds its place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positioning {
    /// An explicit offset, or the process's own pointer.
    Own,
    /// The pointer that all share who opened the file.
    Shared,
}

/// What a C function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// An error code.
    Error,
    /// double (MPI_Wtime).
    Double,
    /// MPI_Aint (MPI_Aint_add).
    Aint,
    /// MPI_Fint (c2f functions).
    Fint,
    /// The handle of this kind (f2c functions).
    Handle(Kind),
}

/// Direction of a parameter, from the application's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read by MPI.
    In,
    /// Written by MPI; a pointer in C.
    Out,
    /// Both; a pointer in C.
    InOut,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The standard's name for it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Which way it goes.
    pub direction: Direction,
    /// For arrays: what gives the number of entries.
    pub array: Option<Length>,
    /// The kind that it has in the function's other form, where the large-count form (MPI_Count for
    /// int, and the like) differs from the ordinary one.
    pub other: Option<Kind>,
}

/// Number of entries of an array parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// The value of that integer parameter (after the call for an out parameter such as outcount).
    Param(String),
    /// Size of that communicator's group (remote group for an inter-communicator).
    CommSize(String),
    /// Number of topology neighbours: `(comm, incoming?)`.
    Neighbours(String, bool),
    /// For strings that MPI writes: bytes that the caller's buffer holds in every ABI served, the
    /// terminating NUL included. What the library below writes beyond that is cut off.
    Bytes(usize),
    /// Known only to the function itself; the front passes the pointer on as it is.
    Opaque,
}

/// What a parameter is. Handles cross as descriptors in the upper half and as words in a crossing;
/// integers of a kind with special values are translated to the standard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // MPI's own words
pub enum Kind {
    Comm,
    Group,
    Datatype,
    Op,
    Errhandler,
    Info,
    Request,
    Message,
    Win,
    File,
    Session,
    /// Plain int without special values (counts, sizes, displacements, booleans in).
    Int,
    /// int out or in that may be MPI_UNDEFINED (colour, index, translated rank).
    IntOrUndefined,
    /// Rank: may be MPI_PROC_NULL, MPI_ANY_SOURCE, MPI_ROOT, MPI_UNDEFINED.
    Rank,
    /// Tag: may be MPI_ANY_TAG.
    Tag,
    /// Logical value, 0 or 1.
    Flag,
    Keyval,
    /// An error code or class.
    ErrorCode,
    ThreadLevel,
    /// Result of a comparison.
    Comparison,
    /// MPI_CART ... or MPI_UNDEFINED.
    TopologyType,
    /// MPI_COMM_TYPE_SHARED ...
    SplitType,
    /// MPI_ORDER_C ...
    Order,
    /// MPI_DISTRIBUTE_BLOCK ...
    Distribution,
    /// MPI_DISTRIBUTE_DFLT_DARG or a number.
    DistributionArg,
    /// MPI_COMBINER_DUP ...
    Combiner,
    /// MPI_TYPECLASS_REAL ...
    TypeClass,
    /// MPI_LOCK_SHARED ...
    LockType,
    /// Window assertion bits.
    WindowAssert,
    /// File access mode bits.
    AccessMode,
    /// MPI_SEEK_SET ...
    Whence,
    /// MPI_T_VERBOSITY_USER_BASIC ...
    Verbosity,
    /// MPI_T_BIND_NO_OBJECT ...
    Bind,
    /// MPI_T_SCOPE_CONSTANT ...
    Scope,
    /// MPI_T_PVAR_CLASS_STATE ...
    PvarClass,
    Aint,
    Offset,
    /// MPI_Count.
    Count,
    /// Data buffer that MPI reads (MPI_IN_PLACE and MPI_BOTTOM possible).
    SendBuffer,
    /// Data buffer that MPI writes (MPI_IN_PLACE and MPI_BOTTOM possible).
    RecvBuffer,
    /// Edge weights: MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY possible.
    Weights,
    /// char* (in: NUL-terminated; out: the caller's buffer).
    String,
    /// MPI_Status* (IGNORE possible), or MPI_Status[] with `array`.
    Status,
    /// Any other pointer, passed on as it is (extra_state, attribute values). One level of
    /// indirection whatever the direction: the direction only says who writes what it points to.
    Pointer,
    /// Function pointer of the application.
    Callback,
    /// MPI_Fint.
    Fint,
    Double,
}

/// What came with MPI 4 as a whole.
const HEADINGS_OF_MPI_4: &[&str] = &["Sessions", "Partitioned communication"];

/// What came with MPI 4 beside what was there.
const OF_MPI_4: &[&str] = &[
    "MPI_Isendrecv",
    "MPI_Isendrecv_replace",
    "MPI_Comm_idup_with_info",
    "MPI_Info_create_env",
    "MPI_Info_get_string",
];

impl Function {
    /// The name in snake case without `MPI_`, under which upper-half implements the function.
    /// A name that is a keyword of Rust in this form does not occur.
    pub fn snake_name(&self) -> String {
        self.name.trim_start_matches("MPI_").to_ascii_lowercase()
    }

    /// By what it finds its place in a file, where it does: MPI's names for these functions are
    /// regular.
    pub fn positioning(&self) -> Option<Positioning> {
        let name = self.name.strip_prefix("MPI_File_")?;
        let starts = |verb: &&str| name.starts_with(*verb);
        if name.contains("_shared") || name.contains("_ordered") {
            Some(Positioning::Shared)
        } else if ["read", "write", "iread", "iwrite", "seek", "get_position"]
            .iter()
            .any(starts)
        {
            Some(Positioning::Own)
        } else {
            None
        }
    }

    /// Whether it came with MPI 4: Open MPI 4 has no function of these.
    pub fn is_of_mpi_4(&self) -> bool {
        self.is_large()
            || self.class == Class::CollectivePersistent
            || HEADINGS_OF_MPI_4.contains(&self.heading.as_str())
            || self.name.starts_with("MPI_Session_")
            || OF_MPI_4.contains(&self.name.as_str())
    }

    /// Whether it is the large-count form of MPI 4: no other function's name ends so.
    pub fn is_large(&self) -> bool {
        self.name.ends_with("_c")
    }

    /// The name of its ordinary form.
    pub fn ordinary_name(&self) -> &str {
        self.name.strip_suffix("_c").unwrap_or(&self.name)
    }

    /// The function with its other forms: large-count, persistent, and both. Their slots are the
    /// next ones.
    pub fn with_forms(self) -> Vec<Function> {
        let persistent = self.persistent_form();
        let ordinary = std::iter::once(self).chain(persistent);
        let mut forms: Vec<Function> = ordinary
            .flat_map(|form| {
                let large = form.large_form();
                std::iter::once(form).chain(large)
            })
            .collect();
        for i in 1..forms.len() {
            forms[i].slot = forms[0].slot + i;
        }
        forms
    }

    /// The persistent form of a non-blocking collective: the same with an info object before the
    /// request.
    fn persistent_form(&self) -> Option<Function> {
        let is_nonblocking = self.class == Class::CollectiveNonblocking;
        let name = self.name.strip_prefix("MPI_I").filter(|_| is_nonblocking)?;
        let (first, rest) = name.split_at_checked(1)?;
        let mut persistent = self.clone();
        persistent.name = format!("MPI_{}{rest}_init", first.to_ascii_uppercase());
        persistent.class = Class::CollectivePersistent;
        let request = self.params.iter().position(|p| p.kind == Kind::Request)?;
        let info = Param {
            name: "info".to_owned(),
            kind: Kind::Info,
            direction: Direction::In,
            array: None,
            other: None,
        };
        persistent.params.insert(request, info);
        Some(persistent)
    }

    /// The non-blocking collective whose persistent form this is, without `_c`.
    pub fn started_as(&self) -> Option<String> {
        let name = self.ordinary_name().strip_prefix("MPI_")?;
        let name = name.strip_suffix("_init")?;
        (self.class == Class::CollectivePersistent)
            .then(|| format!("MPI_I{}", name.to_ascii_lowercase()))
    }

    /// Whether it reaches the library below as such: not if the upper half turns it into others.
    pub fn crosses(&self) -> bool {
        self.folded().is_none() && self.class != Class::CollectivePersistent
    }

    /// Its large-count form, where the table says that it has one: the same with the other kinds.
    fn large_form(&self) -> Option<Function> {
        let has_one = self.params.iter().any(|param| param.other.is_some());
        has_one.then(|| {
            let mut large = self.clone();
            large.name.push_str("_c");
            for param in &mut large.params {
                if let Some(other) = &mut param.other {
                    std::mem::swap(&mut param.kind, other);
                }
            }
            large
        })
    }

    /// Whether it changes what it finds in a window atomically: by an operation, or if that equals something.
    pub fn accumulates(&self) -> bool {
        let changes = |param: &Param| param.kind == Kind::Op || param.name == "compare_addr";
        self.class == Class::Window && self.params.iter().any(changes)
    }

    /// For a large-count form that is its ordinary form on other arguments: the counts, each with
    /// the datatype of its elements. A count that fits an int is passed on; for another, one element
    /// of a datatype that holds them all is the same data, whatever the library below
    /// (`upper_half::fold`). Not so for arrays of counts, for reductions, whose operations are for
    /// the elements alone, and for sizes in bytes.
    pub fn folded(&self) -> Option<Vec<(&Param, &Param)>> {
        let reduces =
            self.class != Class::Window && self.params.iter().any(|param| param.kind == Kind::Op);
        if !self.is_large() || self.class == Class::Object || reduces {
            return None;
        }
        let mut pairs = Vec::new();
        let mut others = self.params.iter().peekable();
        while let Some(param) = others.next() {
            match param.other {
                // An address is as wide as a count.
                None | Some(Kind::Aint) => {}
                Some(_) => {
                    let datatype = others.peek().copied();
                    let is_single =
                        |param: &Param| param.direction == Direction::In && param.array.is_none();
                    let datatype = datatype.filter(|datatype| {
                        datatype.kind == Kind::Datatype && is_single(datatype) && is_single(param)
                    })?;
                    pairs.push((param, datatype));
                }
            }
        }
        let widened = self.params.iter().any(|param| param.other.is_some());
        widened.then_some(pairs)
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }
}

impl Kind {
    /// Whether it is one of MPI's opaque handles.
    pub fn is_handle(self) -> bool {
        matches!(
            self,
            Kind::Comm
                | Kind::Group
                | Kind::Datatype
                | Kind::Op
                | Kind::Errhandler
                | Kind::Info
                | Kind::Request
                | Kind::Message
                | Kind::Win
                | Kind::File
                | Kind::Session
        )
    }

    /// Whether a parameter of this kind is one pointer in C, whatever its direction.
    pub fn is_pointer(self) -> bool {
        matches!(
            self,
            Kind::SendBuffer
                | Kind::RecvBuffer
                | Kind::Weights
                | Kind::String
                | Kind::Status
                | Kind::Pointer
                | Kind::Callback
        )
    }
}

/// How the table spells each kind.
pub(crate) const KINDS: &[(&str, Kind)] = &[
    ("comm", Kind::Comm),
    ("group", Kind::Group),
    ("datatype", Kind::Datatype),
    ("op", Kind::Op),
    ("errhandler", Kind::Errhandler),
    ("info", Kind::Info),
    ("request", Kind::Request),
    ("message", Kind::Message),
    ("win", Kind::Win),
    ("file", Kind::File),
    ("session", Kind::Session),
    ("int", Kind::Int),
    ("int-or-undefined", Kind::IntOrUndefined),
    ("rank", Kind::Rank),
    ("tag", Kind::Tag),
    ("flag", Kind::Flag),
    ("keyval", Kind::Keyval),
    ("error", Kind::ErrorCode),
    ("thread-level", Kind::ThreadLevel),
    ("comparison", Kind::Comparison),
    ("topology", Kind::TopologyType),
    ("split-type", Kind::SplitType),
    ("order", Kind::Order),
    ("distribution", Kind::Distribution),
    ("distribution-arg", Kind::DistributionArg),
    ("combiner", Kind::Combiner),
    ("type-class", Kind::TypeClass),
    ("lock-type", Kind::LockType),
    ("win-assert", Kind::WindowAssert),
    ("access-mode", Kind::AccessMode),
    ("whence", Kind::Whence),
    ("verbosity", Kind::Verbosity),
    ("bind", Kind::Bind),
    ("scope", Kind::Scope),
    ("pvar-class", Kind::PvarClass),
    ("aint", Kind::Aint),
    ("offset", Kind::Offset),
    ("count", Kind::Count),
    ("sendbuf", Kind::SendBuffer),
    ("recvbuf", Kind::RecvBuffer),
    ("weights", Kind::Weights),
    ("string", Kind::String),
    ("status", Kind::Status),
    ("pointer", Kind::Pointer),
    ("callback", Kind::Callback),
    ("fint", Kind::Fint),
    ("double", Kind::Double),
];

/// How the table spells each class.
pub(crate) const CLASSES: &[(&str, Class)] = &[
    ("local", Class::Local),
    ("send", Class::Send),
    ("receive", Class::Receive),
    ("send-receive", Class::SendReceive),
    ("completion", Class::Completion),
    ("collective", Class::Collective),
    ("collective-nonblocking", Class::CollectiveNonblocking),
    ("collective-persistent", Class::CollectivePersistent),
    ("object", Class::Object),
    ("object-collective", Class::ObjectCollective),
    ("window", Class::Window),
    ("file", Class::File),
    ("file-collective", Class::FileCollective),
    (
        "file-collective-nonblocking",
        Class::FileCollectiveNonblocking,
    ),
    ("process", Class::Process),
    ("environment", Class::Environment),
    ("tool", Class::Tool),
];

/// How the table spells who does the work.
pub(crate) const VIAS: &[(&str, Via)] = &[
    ("core", Via::Core),
    ("direct", Via::Direct),
    ("refuse", Via::Refuse),
];

/// The value that `table` spells `name`.
pub(crate) fn spelled<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

/// How `table` spells `value`.
pub(crate) fn spelled_as<T: PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("", |(name, _)| name)
}
