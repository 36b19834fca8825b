# A Grid Engine of one machine for one job, in namespaces of its own. Arguments: the unpacked packages, a folder for its
# files, and the script. The job gets the variables that $PASSED names.
set -e
packages=$1 root=$2 script=$3
mount -t overlay -o "lowerdir=$packages/usr/lib:/usr/lib" overlay /usr/lib
# Grid Engine takes no machine whose name is that of a loopback's alone.
hostname sge
mkdir -p "$root"/{default/common,qmaster/job_scripts,execd,spooldb,bin,utilbin,util}
echo '127.0.0.1 sge localhost' >"$root/hosts"
mount --bind "$root/hosts" /etc/hosts

share=$packages/usr/share/gridengine
programs=/usr/lib/gridengine
ln -s $programs "$root/bin/lx-amd64"
ln -s $programs "$root/utilbin/lx-amd64"
cp -r "$share/util/." "$root/util"
echo sge >"$root/default/common/act_qmaster"
export SGE_ROOT=$root SGE_CELL=default SGE_ARCH=lx-amd64
# In the foreground, and so children of this shell.
export SGE_ND=1
sed "s@sgeadmin@root@; s@/var/spool/gridengine@$root@; s@/usr/sbin@$programs@" \
    "$share/default-bootstrap" >"$root/default/common/bootstrap"
# Jobs of root's are refused otherwise, and a login shell sets another PATH.
sed "s@/var/spool/gridengine@$root@; s/^min_\([ug]\)id.*/min_\1id 0/; s/^login_shells.*/login_shells none/" \
    "$share/default-configuration" >"$root/configuration"
$programs/spoolinit berkeleydb libspoolb "$root/spooldb" init
$programs/spooldefaults configuration "$root/configuration"
$programs/spooldefaults complexes "$share/util/resources/centry"
$programs/spooldefaults usersets "$share/util/resources/usersets"
$programs/spooldefaults managers root

PATH=$programs:$PATH
sge_qmaster &
until qconf -sconf; do sleep 0.2; done >/dev/null 2>&1
qconf -as sge
sge_execd &
# At once, and not four times a minute.
qconf -ssconf | sed 's/^schedule_interval .*/schedule_interval 0:0:1/' >"$root/sconf"
qconf -Msconf "$root/sconf"
qconf -Ap "$share/util/resources/pe/mpi"
qconf -sq | sed 's/^qname .*/qname all.q/; s/^hostlist .*/hostlist sge/; s/^pe_list .*/pe_list mpi/
    s/^slots .*/slots 64/; s/^load_thresholds .*/load_thresholds NONE/' >"$root/queue"
qconf -Aq "$root/queue"

job=$(qsub -terse -v "$PASSED" "$script")
while qstat -j "$job"; do sleep 0.5; done >"$root/qstat" 2>&1
