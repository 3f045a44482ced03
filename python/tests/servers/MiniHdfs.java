import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * Two name nodes, of which one is active, and one data node: {@code MiniHdfs BASE FOLDER} copies the folder's files to
 * the root. Prints the ports of the name nodes in a line. Each line that it reads makes the other name node the active
 * one, and is answered by a line; it ends when its standard input does.
 */
public class MiniHdfs {
    /** Small, so that a file of the tests has several blocks. */
    private static final String BLOCK_BYTES = "65536";

    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        conf.set("dfs.blocksize", BLOCK_BYTES);
        conf.set("dfs.namenode.fs-limits.min-block-size", BLOCK_BYTES);
        // A folder that only its owner may see has to stay one.
        conf.setBoolean("dfs.permissions.enabled", true);
        // The other name node knows the files as soon as they are written.
        conf.setBoolean("dfs.ha.tail-edits.in-progress", true);
        conf.set("dfs.ha.tail-edits.period", "100ms");
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf)
            .nnTopology(MiniDFSNNTopology.simpleHATopology(2))
            .numDataNodes(1)
            .build();
        cluster.waitActive();
        int active = 0;
        cluster.transitionToActive(active);
        try (DistributedFileSystem files = cluster.getFileSystem(active)) {
            for (java.io.File file : new java.io.File(arguments[1]).listFiles()) {
                files.copyFromLocalFile(new Path(file.toURI()), new Path("/" + file.getName()));
            }
        }
        System.out.println(cluster.getNameNodePort(0) + " " + cluster.getNameNodePort(1));
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        while (orders.readLine() != null) {
            cluster.transitionToStandby(active);
            active = 1 - active;
            cluster.transitionToActive(active);
            System.out.println(active);
        }
        Runtime.getRuntime().halt(0);
    }
}
