// A process whose job may be killed at any moment: Nextflow starts it again (nextflow.config), and it continues from its
// newest checkpoint.
//
//   nextflow run nextflow.nf -c nextflow.config --folder "$PWD/run7" --program './app input'
//
// Each attempt has a folder of its own, and a checkpoint names files by their paths. So the program runs in another one,
// which stays, with its files and its checkpoints.
params.folder = null
params.program = null
params.launch = 'mpirun -n 8'
params.interval = 1800

process simulate {
    cpus 8

    output:
    path 'finished'

    script:
    """
    (cd "${params.folder}" &&
        ${params.launch} stasis launch --resume -i ${params.interval} --ckpt-dir ckpt ${params.program})
    touch finished
    """
}

workflow {
    simulate()
}
