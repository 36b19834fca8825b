//! Values of the tools interface. Open MPI and MPICH number the values of each group in the standard's order. The first
//! value of a group differs.

use contract::abi::{
    T_VERBOSITY_MPIDEV_ALL, T_VERBOSITY_MPIDEV_BASIC, T_VERBOSITY_MPIDEV_DETAIL,
    T_VERBOSITY_TUNER_ALL, T_VERBOSITY_TUNER_BASIC, T_VERBOSITY_TUNER_DETAIL, T_VERBOSITY_USER_ALL,
    T_VERBOSITY_USER_BASIC, T_VERBOSITY_USER_DETAIL,
};
use upper_half::app_abi::ToolValue;

const VERBOSITIES: [i32; 9] = [
    T_VERBOSITY_USER_BASIC,
    T_VERBOSITY_USER_DETAIL,
    T_VERBOSITY_USER_ALL,
    T_VERBOSITY_TUNER_BASIC,
    T_VERBOSITY_TUNER_DETAIL,
    T_VERBOSITY_TUNER_ALL,
    T_VERBOSITY_MPIDEV_BASIC,
    T_VERBOSITY_MPIDEV_DETAIL,
    T_VERBOSITY_MPIDEV_ALL,
];

/// First value of each group in an ABI.
pub struct ToolFirsts {
    /// MPI_T_VERBOSITY_USER_BASIC.
    pub verbosity: i32,
    /// MPI_T_BIND_NO_OBJECT.
    pub bind: i32,
    /// MPI_T_SCOPE_CONSTANT.
    pub scope: i32,
    /// MPI_T_PVAR_CLASS_STATE.
    pub pvar_class: i32,
}

impl ToolFirsts {
    /// The application's value for a standard one.
    pub fn out(&self, group: ToolValue, standard: i32) -> i32 {
        let place = match group {
            ToolValue::Verbosity => VERBOSITIES
                .iter()
                .position(|known| *known == standard)
                .map_or(crate::INVALID, |place| place as i32),
            // The first value of the standard is 1.
            _ => standard - 1,
        };
        let first = match group {
            ToolValue::Verbosity => self.verbosity,
            ToolValue::Bind => self.bind,
            ToolValue::Scope => self.scope,
            ToolValue::PvarClass => self.pvar_class,
        };
        first.wrapping_add(place)
    }

    /// The standard's class of a performance variable, from the application's.
    pub fn class_in(&self, class: i32) -> i32 {
        class.wrapping_sub(self.pvar_class).wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::abi::{T_BIND_MPI_INFO, T_PVAR_CLASS_GENERIC, T_SCOPE_ALL_EQ};

    #[test]
    fn values_are_those_of_mpichs_header() {
        let mpich = ToolFirsts {
            verbosity: 221,
            bind: 9700,
            scope: 60438,
            pvar_class: 240,
        };
        assert_eq!(mpich.out(ToolValue::Verbosity, T_VERBOSITY_MPIDEV_ALL), 229);
        assert_eq!(mpich.out(ToolValue::Bind, T_BIND_MPI_INFO), 9710);
        assert_eq!(mpich.out(ToolValue::Scope, T_SCOPE_ALL_EQ), 60444);
        assert_eq!(mpich.out(ToolValue::PvarClass, T_PVAR_CLASS_GENERIC), 249);
        assert_eq!(mpich.class_in(249), T_PVAR_CLASS_GENERIC);
    }
}
