pluginManagement { repositories { google(); mavenCentral() } }

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
        maven { url = uri("models/animals/maven") }
        maven { url = uri("models/digits/maven") }
        maven { url = uri("models/sentences/maven") }
    }
}

rootProject.name = "deploykit-app"
include(":app")
