! Asking Stasis for a checkpoint from inside a program, as stasis.h does in C. To be compiled with the
! program, or included before it: include 'stasis.f90'. There is nothing to link.
module stasis
  implicit none
  private
  public :: stasis_checkpoint
contains
  ! Asks for a checkpoint of the whole job and goes on: it is taken as soon as all ranks can, wherever
  ! they are by then. One rank may ask, or all: what all ask for within ten seconds is one checkpoint.
  ! False where the process is not a rank that Stasis runs.
  logical function stasis_checkpoint()
    integer :: unit, status
    open (newunit=unit, file='/proc/stasis/checkpoint', status='old', action='write', iostat=status)
    stasis_checkpoint = status == 0
    if (stasis_checkpoint) close (unit)
  end function stasis_checkpoint
end module stasis
