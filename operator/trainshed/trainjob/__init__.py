"""TrainJobs of trainer.kubeflow.org/v1alpha1 and the kinds of kubeflow.org, each converted to the other."""
